"""``ludus check``: check in seconds whether a run would start."""

from __future__ import annotations

import json
import time

import attrs
import click
from ludus.testing import Finding, check_run

__all__ = ["check"]

_COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.argument("path", metavar="RUN.TOML")
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Replace one value; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_context
def check(context: click.Context, path: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check a TOML file: plugins, options, spaces and shapes, and one real step of every component.

    The exit status is 1 if the run would fail.
    """
    started = time.perf_counter()
    findings = []
    for finding in check_run(path, overrides=overrides):
        findings.append(finding)
        if not as_json:
            _show(finding)
    failed = sum(finding.status == "fail" for finding in findings)
    if as_json:
        click.echo(
            json.dumps({"ok": not failed, "findings": [attrs.asdict(finding) for finding in findings]}, indent=2)
        )
    else:
        took = f"in {time.perf_counter() - started:.1f} s"
        click.echo(f"{failed} of {len(findings)} checks failed {took}" if failed else f"ready to train ({took})")
    context.exit(1 if failed else 0)


def _show(finding: Finding) -> None:
    mark = click.style(f"{finding.status:<4}", fg=_COLORS[finding.status], bold=True)
    click.echo(f"{mark}  {finding.subject}: {finding.text}")
