"""`conoscope completion`: a script that completes commands, options and choices in a shell."""

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from conoscope.commands.base import Command
from conoscope.common.parsing import Parser
from conoscope.common.terminal import say

FILES = ("FILE", "DIR", "FOLDER", "MODEL", "SOURCE", "RECORD")
"""What stands for the value of an option that is a file or a folder."""
VALUES: dict[str, tuple[str, ...]] = {
    "--positions": ("none", "sinusoidal", "learned", "relative"),
    "--residual": ("none", "course", "prenorm", "postnorm", "pure"),
    "--pool": ("first", "last", "mean"),
    "--device": ("auto", "cpu", "cuda"),
    "--dtype": ("float32", "float64", "bfloat16", "float16"),
    "--precision": ("auto", "float32", "bfloat16"),
    "--word-score": ("sum", "max"),
    "--erase": ("remove", "mask"),
    "--sentences": ("rationale", "label", "all"),
    "--normalize": ("minmax", "softmax_rescale", "none"),
    "--binary": ("threshold=0.5", "top", "share=0.2", "mass=0.8"),
    "--batches": ("grouped", "shuffled"),
    "--special": ("zeros", "random"),
    "--penalty-rows": ("cls", "all", "columns"),
    "--penalty-input": ("minmax", "raw", "sigmoid"),
    "--penalty-unit": ("sentence", "summed"),
    "--report-to": ("none", "tensorboard", "wandb"),
}
"""The values of options that are checked where they are used."""


@dataclass(frozen=True)
class Completed:
    """What there is to complete for one command: options with their help, the words that may stand as arguments."""

    name: str
    help: str
    options: dict[str, str]
    words: tuple[str, ...]
    values: dict[str, tuple[str, ...] | None]
    """What may stand after each option that takes a value; None for files."""


def _options(command: ArgumentParser) -> None:
    command.add_argument("shell", choices=tuple(SCRIPTS), help="the shell to write a script for")


def _run(args: Namespace) -> None:
    say(SCRIPTS[args.shell](list(_commands())))


def _commands() -> Iterator[Completed]:
    """What there is to complete, from the parsers of all commands."""
    from conoscope.commands import COMMANDS
    from conoscope.corpora import CORPORA
    from conoscope.figures import FIGURES
    from conoscope.studies import STUDIES

    named = {"CORPUS": list(CORPORA), "FIGURE": ["positions", *FIGURES], "STUDY": list(STUDIES)}
    after = _after()
    added = Parser(prog="conoscope").add_subparsers()
    for command in COMMANDS.values():
        command.add_to(added)
    for name, command in COMMANDS.items():
        actions = added.choices[name]._actions
        options = {option: _plain(action) for action in actions for option in action.option_strings if _is_shown(action)}
        arguments = [action for action in actions if not action.option_strings]
        choices = [str(choice) for action in arguments for choice in action.choices or ()]
        asked = " ".join(str(action.metavar or action.dest.upper()) for action in arguments)
        known = [word for kind, words in named.items() if kind in asked for word in words]
        values = {
            option: None
            if action.metavar in FILES or option in ("-o", "--out")
            else after.get(option, tuple(action.choices or ()))
            for action in actions
            if action.nargs != 0 and _is_shown(action)
            for option in action.option_strings
        }
        yield Completed(name, command.help, options, (*choices, *known), values)


def _after() -> dict[str, tuple[str, ...]]:
    """What may stand after options whose values have names."""
    from conoscope.explaining import METHODS
    from conoscope.measures import CATALOGUE
    from conoscope.models.family import PRESETS

    measures = tuple(CATALOGUE)
    return {
        "-m": measures,
        "--measure": measures,
        "--map": tuple(METHODS),
        "--preset": tuple(PRESETS),
        **VALUES,
    }


def _is_shown(action: Action) -> bool:
    return action.help != "==SUPPRESS=="


def _plain(action: Action) -> str:
    """The help of an option without what a shell would read as its own."""
    said = (action.help or "").partition(";")[0]
    return "".join(character for character in said if character.isalnum() or character in " -,.()").strip()


def _bash(commands: list[Completed]) -> str:
    cases = "\n".join(f'    {one.name}) options="{" ".join(one.options)}"; words="{" ".join(one.words)}" ;;' for one in commands)
    values = "\n".join(_bash_values(one) for one in commands if one.values)
    return f"""# Completion of conoscope for bash. In ~/.bashrc: eval "$(conoscope completion bash)"
_conoscope() {{
  local command="" options="" words="" values="" cut="" place line="${{COMP_LINE:0:COMP_POINT}}"
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  if [[ "$previous" == "=" ]]; then previous="${{COMP_WORDS[COMP_CWORD-2]}}"; fi
  # bash parts words at colons, as in imdb:test: what stands before the last colon is taken off again.
  if [[ "$COMP_WORDBREAKS" == *:* && "$line" != *[[:space:]] ]]; then
    line="${{line##*[[:space:]]}}"
    if [[ "$line" == *:* && "$line" != -* ]]; then current="$line"; cut="${{line%:*}}:"; fi
  fi
  for ((place = 1; place < COMP_CWORD; place++)); do
    case "${{COMP_WORDS[place]}}" in
      -*) ;;
      *) command="${{COMP_WORDS[place]}}"; break ;;
    esac
  done
  case "$command" in
    "") words="{" ".join(one.name for one in commands)}"; options="--help --version" ;;
{cases}
  esac
  if [[ "$current" == *:* && " $words " == *" bistro "* ]]; then words="$words {" ".join(_specs())}"; fi
  if [[ "$current" != -* ]]; then
    case "$command $previous" in
{values}
    esac
  fi
  if [[ "$values" == FILES ]]; then
    COMPREPLY=($(compgen -f -- "$current"))
  elif [[ -n "$values" ]]; then
    COMPREPLY=($(compgen -W "${{values#VALUES}}" -- "$current"))
  elif [[ "$current" == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  elif [[ -z "$command" ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))
  fi
  COMPREPLY=("${{COMPREPLY[@]#"$cut"}}")
}}
complete -o filenames -F _conoscope conoscope"""


def _specs() -> list[str]:
    """Every corpus with each of its splits."""
    from conoscope.corpora import CORPORA

    return [f"{corpus}:{split}" for corpus, entry in CORPORA.items() for split in entry.splits]


def _bash_values(one: Completed) -> str:
    """The cases of the options of a command, those of equal values together."""
    alike: dict[tuple[str, ...] | None, list[str]] = {}
    for option, values in one.values.items():
        alike.setdefault(values, []).append(f'"{one.name} {option}"')
    return "\n".join(
        f'      {" | ".join(options)}) values="{"FILES" if values is None else " ".join(("VALUES", *values))}" ;;'
        for values, options in alike.items()
    )


def _zsh(commands: list[Completed]) -> str:
    names = "\n".join(f"    '{one.name}:{_quoted(one.help)}'" for one in commands)
    cases = "\n".join(
        "    {}) options=({}); choices=({}) ;;".format(
            one.name,
            " ".join(f"'{name}:{_quoted(said)}'" for name, said in one.options.items()),
            " ".join(f"'{word}'" for word in one.words),
        )
        for one in commands
    )
    return f"""#compdef conoscope
# Completion of conoscope for zsh. In ~/.zshrc, after compinit: eval "$(conoscope completion zsh)"
_conoscope() {{
  local -a commands options choices
  commands=(
{names}
  )
  if (( CURRENT == 2 )); then
    _describe 'command' commands
    return
  fi
  case "$words[2]" in
{cases}
  esac
  if [[ "$PREFIX" == -* ]]; then
    _describe 'option' options
  else
    (( $#choices )) && _describe 'argument' choices
    _files
  fi
}}
compdef _conoscope conoscope"""


def _quoted(text: str) -> str:
    return text.replace("'", "").replace(":", "")


def _fish(commands: list[Completed]) -> str:
    lines = ["# Completion of conoscope for fish. In ~/.config/fish/config.fish: conoscope completion fish | source"]
    for one in commands:
        lines.append(f"complete -c conoscope -n __fish_use_subcommand -f -a {one.name} -d '{_quoted(one.help)}'")
        seen = f"-n '__fish_seen_subcommand_from {one.name}'"
        for option, said in one.options.items():
            kind = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            lines.append(f"complete -c conoscope {seen} {kind} -d '{_quoted(said)}'")
        if one.words:
            lines.append(f"complete -c conoscope {seen} -a '{' '.join(one.words)}'")
    return "\n".join(lines)


SCRIPTS: dict[str, Callable[[list[Completed]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}

COMMAND = Command(
    name="completion",
    help="print a script that completes commands and options in bash, zsh or fish",
    example='conoscope completion bash\neval "$(conoscope completion bash)"',
    options=_options,
    run=_run,
)
