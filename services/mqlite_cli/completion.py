"""`completion SHELL`: a script that completes commands, flags and queue names in bash, zsh or fish.

Called by `dispatch` through the command table, and made from it. The scripts hold what the table
says when they are printed; names of queues are asked for when somebody presses the key, and a
broker that does not answer completes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqlite_cli.commands import ALIASES, COMMANDS, GROUPS
from mqlite_cli.escaping import field
from mqlite_cli.grammar import Command
from mqlite_cli.invocation import Invocation
from mqlite_cli.refusals import Refusal

_OWN = ("version", "help")
_QUEUE_WORDS = ("QUEUE", "NAME")
"""What a positional is called that is a queue's name, or most likely one."""

_BASH = """\
# mqlite completion for bash; load it with: source <(mqlite completion bash)
_mqlite() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} first=2 flags= takes_queue=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{words}" -- "$current"))
    return
  fi
  case $command in
{groups}
  esac
  case $command in
{commands}
  esac
  case $current in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
    *)
      COMPREPLY=()
      if [ -n "$takes_queue" ] && [ "$COMP_CWORD" -eq "$first" ]; then
        COMPREPLY=($(compgen -W "$(mqlite list 2>/dev/null | cut -d' ' -f1)" -- "$current"))
      fi ;;
  esac
}}
complete -o default -F _mqlite mqlite
"""

_ZSH = """\
# mqlite completion for zsh; load it with: source <(mqlite completion zsh)
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
"""

_FISH = """\
# mqlite completion for fish; load it with: mqlite completion fish | source
complete -c mqlite -f
function __mqlite_queues
  mqlite list 2>/dev/null | cut -d' ' -f1
end
"""


def completion(run: Invocation) -> int:
    """`completion SHELL`: the script on standard output."""
    (shell,) = run.arguments.words
    make = SHELLS.get(shell)
    if make is None:
        raise Refusal(f"no completion for {field(shell)}; there is one for {', '.join(SHELLS)}")
    run.streams.write(make())
    return 0


def _bash() -> str:
    words = [*dict.fromkeys(each.name.partition(" ")[0] for each in COMMANDS), *ALIASES, *_OWN]
    return _BASH.format(
        words=" ".join(words),
        groups="\n".join(_bash_groups()),
        commands="\n".join(_bash_command(each) for each in COMMANDS),
    )


def _bash_groups() -> Iterator[str]:
    for group, seconds in GROUPS.items():
        yield f"    {group})"
        yield '      if [ "$COMP_CWORD" -eq 2 ]; then'
        yield f'        COMPREPLY=($(compgen -W "{" ".join(seconds)}" -- "$current"))'
        yield "        return"
        yield "      fi"
        yield '      command="$command ${COMP_WORDS[2]}" first=3 ;;'


def _bash_command(command: Command) -> str:
    names = [command.name, *(alias for alias, name in ALIASES.items() if name == command.name)]
    patterns = "|".join(f'"{name}"' for name in names)
    flags = " ".join(f"--{name}" for name in command.flags)
    takes = "takes_queue=1 " if _takes_queue(command) else ""
    return f'    {patterns}) {takes}flags="{flags}" ;;'


def _takes_queue(command: Command) -> bool:
    return command.words[:1] != () and command.words[0] in _QUEUE_WORDS


def _zsh() -> str:
    return _ZSH + _bash()


def _fish() -> str:
    return _FISH + "".join(f"{line}\n" for each in COMMANDS for line in _fish_command(each))


def _fish_command(command: Command) -> Iterator[str]:
    first, _, second = command.name.partition(" ")
    place = f"__fish_seen_subcommand_from {first}"
    about = _fish_quoted(command.summary)
    if second:
        seconds = " ".join(GROUPS[first])
        yield f"complete -c mqlite -n __fish_use_subcommand -a {first}"
        unsaid = _fish_quoted(f"{place}; and not __fish_seen_subcommand_from {seconds}")
        yield f"complete -c mqlite -n {unsaid} -a {second} -d {about}"
        place = f"{place}; and __fish_seen_subcommand_from {second}"
    else:
        yield f"complete -c mqlite -n __fish_use_subcommand -a {first} -d {about}"
    if _takes_queue(command):
        yield f"complete -c mqlite -n {_fish_quoted(place)} -a '(__mqlite_queues)'"
    for flag in command.flags.values():
        value = "" if flag.is_switch else " -x"
        meaning = _fish_quoted(flag.meaning)
        yield f"complete -c mqlite -n {_fish_quoted(place)} -l {flag.name}{value} -d {meaning}"


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
"""Shell → what makes its script."""
