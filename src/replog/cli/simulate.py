"""`replog sim`: options of the simulator; `replog.cli.sim` runs it."""

from replog.cli.options import Arguments, Parser, add_format, examples, not_negative, positive


def simulate_options(parser: Parser) -> None:
    """Options of `replog sim`."""
    examples(
        parser,
        "replog sim --seed 42             replay one seed",
        "replog sim --seeds 100           a hundred, from a random one on, until one fails",
    )
    parser.add_argument(
        "--seed", type=not_negative, metavar="N", help="the (first) seed (default: a random one)"
    )
    parser.add_argument(
        "--seeds", type=positive, default=1, metavar="N", help="how many in a row (default: 1)"
    )
    parser.add_argument(
        "--keep-going", action="store_true", help="go on with the next seed after a failure"
    )
    parser.add_argument(
        "--no-timeline", action="store_true", help="do not print what each broker said"
    )
    add_format(parser)


def simulate(arguments: Arguments) -> int:
    """Play seeds; 1 when one of them breaks a rule."""
    from replog.cli.sim import run

    return run(
        arguments.seed,
        arguments.seeds,
        output_format=arguments.format,
        timeline=not arguments.no_timeline,
        keep_going=arguments.keep_going,
    )
