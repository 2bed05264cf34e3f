"""`completion SHELL`: a script that completes commands, flags and names in bash, zsh or fish.

Called by `dispatch` through the command table, and made from it. The scripts hold what the table
says when they are printed; names of queues and contexts are asked for when somebody presses the
key, and a broker that does not answer completes nothing. Rule: a queue is named by whoever may make
one, and the key is pressed by somebody with rights of his own; so a name is never handed to what
expands it (`compgen -W` does), and only one that means nothing to any shell is offered.
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
"""What a positional is called that is a queue's name, or most likely one; a context's behind
`context`."""

_MARKS = "_./:@%+,"
"""What may stand in a plain name beside letters and digits, anywhere; `-` and `=` not in front."""

_BASH = """\
# mqlite completion for bash; load it with: source <(mqlite completion bash)
_mqlite_offer() {{
  local name
  while IFS= read -r name; do
    case $name in
      '' | [-=]* | *[![:alnum:]{marks}=-]*) ;;
      "$current"*) COMPREPLY+=("$name") ;;
    esac
  done <<< "$1"
}}
_mqlite() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} first=2 flags= names=
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
      if [ "$COMP_CWORD" -eq "$first" ]; then
        case $names in
          queues) _mqlite_offer "$(mqlite list --format names 2>/dev/null)" ;;
          contexts) _mqlite_offer "$(mqlite context list 2>/dev/null | cut -d' ' -f1)" ;;
        esac
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
  mqlite list --format names 2>/dev/null | string match -r -- '{plain}'
end
function __mqlite_contexts
  mqlite context list 2>/dev/null | cut -d' ' -f1 | string match -r -- '{plain}'
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
        marks=_MARKS,
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
    return f'    {patterns}) names={_names(command)} flags="{flags}" ;;'


def _names(command: Command) -> str:
    """Of what the first positional is a name: `queues`, `contexts`, or "" for none."""
    if [*command.words, command.rest][0] not in _QUEUE_WORDS:
        return ""
    return "contexts" if command.name.startswith("context ") else "queues"


def _zsh() -> str:
    return _ZSH + _bash()


def _fish() -> str:
    plain = rf"^[\pL\pN{_MARKS}][\pL\pN{_MARKS}=-]*$"
    lines = (f"{line}\n" for each in COMMANDS for line in _fish_command(each))
    return _FISH.format(plain=plain) + "".join(lines)


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
    if names := _names(command):
        yield f"complete -c mqlite -n {_fish_quoted(place)} -a '(__mqlite_{names})'"
    for flag in command.flags.values():
        value = "" if flag.is_switch else " -x"
        meaning = _fish_quoted(flag.meaning)
        yield f"complete -c mqlite -n {_fish_quoted(place)} -l {flag.name}{value} -d {meaning}"


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
"""Shell → what makes its script."""
