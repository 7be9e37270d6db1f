"""`replog sim`: options of the simulator; `replog.cli.sim` runs it."""

from replog.cli.options import Arguments, Parser, add_format, examples, not_negative, positive


def simulate_options(parser: Parser) -> None:
    """Options of `replog sim`."""
    examples(
        parser,
        "replog sim --seed 42             replay one seed",
        "replog sim --seeds 100           try a hundred, stop at the first that fails",
    )
    parser.add_argument("--seed", type=not_negative, metavar="N", help="play this seed alone")
    parser.add_argument(
        "--seeds", type=positive, default=100, metavar="N", help="how many to try (default: 100)"
    )
    add_format(parser)


def simulate(arguments: Arguments) -> int:
    """Play seeds; 1 when one of them breaks a rule."""
    from replog.cli.sim import run

    return run(arguments.seed, arguments.seeds)
