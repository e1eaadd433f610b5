"""`torchmark publish` and `torchmark report`: pages of stored runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from torchmark.cli.shell import (
    ExitCode,
    check_writable,
    echo,
    opened,
    store_option,
    tell_damage,
    tell_written,
    warn,
)
from torchmark.commands.publish import TITLE, publish
from torchmark.errors import OutputFileError
from torchmark.files import write_whole
from torchmark.report.figures import number_text
from torchmark.report.formats import html
from torchmark.report.views.several import view_runs


@click.command("publish")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--title", metavar="TEXT", help=f"Title of the site.  [default: {TITLE}]")
@click.option(
    "--commit-url",
    metavar="URL",
    help="Link commits to URL, with {commit} in it, e.g. "
    "https://github.com/OWNER/REPO/commit/{commit}.",
)
@click.option(
    "--site-url", metavar="URL", help="Address at which the site will be; its feed needs it."
)
@store_option
@click.option("--quiet", is_flag=True, help="Show only errors.")
def publish_command(
    directory: Path,
    title: str | None,
    commit_url: str | None,
    site_url: str | None,
    place: str | None,
    quiet: bool,
) -> None:
    """Write a static site of the whole store into DIR, or bring the site there up to date.

    The site has an overview of all cases with their trends, a page for each case (history with
    change points, samples, counts by function) and for each run, a list of regressions and
    improvements, and a feed. It can be opened from disk or from any web server. Only pages that
    changed are written.

    \b
    torchmark publish site
    torchmark publish site --commit-url "https://github.com/pytorch/pytorch/commit/{commit}"
    """

    def tell(done: int, total: int) -> None:
        if not quiet and sys.stderr.isatty():
            click.echo(f"\r{done} of {total} pages", nl=done == total, err=True)

    with opened(place, read_only=True) as store:
        found = publish(
            directory,
            store=store,
            title=title,
            commit_url=commit_url,
            site_url=site_url,
            progress=tell,
        )
        is_damaged = tell_damage(store)
    if not quiet:
        echo(
            f"{found.directory / 'index.html'}: {number_text(found.pages, 'file')}, "
            f"{found.written} written, {found.removed} removed"
        )
    sys.exit(ExitCode.ENVIRONMENT if is_damaged else ExitCode.FINE)


@click.command("report")
@click.argument("names", metavar="[RUN]...", nargs=-1)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    default=Path("report.html"),
    show_default=True,
    help="The page to write.",
)
@store_option
def report_command(names: tuple[str, ...], output: Path, place: str | None) -> None:
    """Write one self-contained page for one or several runs of any kind.

    RUN is an id, the beginning of an id, a tag, or `latest` (the default). With several runs of
    suites, the page begins with a table that has a column for each of them.

    \b
    torchmark report
    torchmark report before after -o report.html
    """
    check_writable([output])
    with opened(place, read_only=True) as store:
        runs = [store.run(name) for name in dict.fromkeys(map(store.id_of, names or ("latest",)))]
        is_damaged = tell_damage(store)
    try:
        write_whole(output, html.render(view_runs(runs)).encode())
    except OSError as error:
        raise OutputFileError(
            f"{output} cannot be written: {error.strerror}; free some space, or name another file "
            "with -o"
        ) from error
    tell_written(output)
    if is_damaged:
        warn("the page has everything except the damaged records")
        sys.exit(ExitCode.ENVIRONMENT)
