"""`replog sim`: options of the simulator; `replog.cli.sim` runs it."""

from replog.cli.errors import UsageError
from replog.cli.options import Arguments, Parser, add_format, examples, not_negative, positive

ROWS = 40  # of the timeline: what led to a failure is seldom further back


def simulate_options(parser: Parser) -> None:
    """Options of `replog sim`."""
    examples(
        parser,
        "replog sim --seed 42                  replay one seed",
        "replog sim --seeds 100                a hundred, from a random one on, until one fails",
        "replog sim --seed 42 --shrink         leave out what the failure does not need",
        "replog sim --scenario seed-42.json    replay what --shrink has written",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--seed", type=not_negative, metavar="N", help="the (first) seed (default: a random one)"
    )
    what.add_argument("--scenario", metavar="FILE", help="run what a file says instead of a seed")
    parser.add_argument(
        "--seeds", type=positive, default=1, metavar="N", help="how many in a row (default: 1)"
    )
    parser.add_argument(
        "--duration",
        type=positive,
        metavar="S",
        help="virtual seconds with faults (default: 2, 3 or 5, as the seed says)",
    )
    parser.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="processes (default: as many as there are cores, for many seeds)",
    )
    parser.add_argument(
        "--keep-going", action="store_true", help="go on with the next seed after a failure"
    )
    parser.add_argument(
        "--every-fault", action="store_true", help="fail when some kind of fault never happened"
    )
    parser.add_argument(
        "--shrink",
        action="store_true",
        help="when it fails, make the run as small as it can be and write it to a file",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="where --shrink writes to (default: seed-N.json)"
    )
    parser.add_argument(
        "--rows",
        type=not_negative,
        default=ROWS,
        metavar="N",
        help=f"of the timeline of a failure (default: {ROWS}; 0: no timeline)",
    )
    parser.add_argument(
        "--messages", action="store_true", help="also print the last messages of each broker"
    )
    add_format(parser)


def simulate(arguments: Arguments) -> int:
    """Play seeds or a scenario; 1 when a rule is broken."""
    from replog.cli.sim import How, run_scenario, run_seeds

    if arguments.scenario is not None and arguments.seeds != 1:
        raise UsageError("--seeds is for seeds, not for --scenario")
    if arguments.scenario is not None and arguments.duration is not None:
        raise UsageError("a scenario says itself how long it is: no --duration")
    if arguments.output is not None and not arguments.shrink:
        raise UsageError("--output is for --shrink")
    how = How(
        as_json=arguments.format == "json",
        rows=arguments.rows,
        messages=arguments.messages,
        keep_going=arguments.keep_going,
        every_fault=arguments.every_fault,
        shrink=arguments.shrink,
        output=arguments.output,
        jobs=arguments.jobs,
    )
    if arguments.scenario is not None:
        return run_scenario(arguments.scenario, how)
    return run_seeds(arguments.seed, arguments.seeds, arguments.duration, how)
