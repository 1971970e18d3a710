"""A group of commands: without arguments it shows its help, and for a misspelt command it suggests the nearest."""

from __future__ import annotations

from difflib import get_close_matches

import click


class Group(click.Group):
    """As click's group, but its messages fit the form `reticent: one line`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"{ctx.command_path} --help lists them"
            ctx.fail(f"unknown command {name!r}; {hint}")
        return super().resolve_command(ctx, args)
