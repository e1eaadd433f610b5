"""Where memory lies: addresses, layouts, huge pages."""
