// Excerpts of search results are fetched, which browsers forbid for pages opened from a disk.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
