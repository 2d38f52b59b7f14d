"""Completion for bash, zsh and fish. Their scripts call the hidden command `interlock __complete`.

It takes the words up to the cursor and prints a candidate on each line, with its meaning after a
tab. `-- N` means that the N-th word starts a foreign command, which the shell completes itself. If
there are no candidates, the shell completes file names.
"""

from collections.abc import Sequence

from interlock.doors.cli import output
from interlock.doors.cli.context import Context
from interlock.doors.cli.grammar import (
    BUILT_IN,
    COMMON,
    HELP,
    VERSION,
    Command,
    Flag,
    command,
    is_flag,
)
from interlock.verbs.answers import Answer
from interlock.verbs.types import Choice

BASH = r"""# Completion of interlock for bash. In ~/.bashrc: eval "$(interlock completion bash)"
_interlock() {
    local program=${COMP_WORDS[0]/#\~/$HOME}
    type -P "$program" >/dev/null || program=interlock  # an alias
    local line=$COMP_LINE word= about= blank cur kept i last=0
    local -a words
    # Bash splits --flag=value into three words and @name into two. Join words without a blank.
    words=("${COMP_WORDS[0]}")
    line=${line#*"${COMP_WORDS[0]}"}
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        blank=${line%%[![:space:]]*}
        line=${line#"$blank"}
        line=${line#"$word"}
        if [[ -n $blank || -z $COMP_LINE ]]; then last=$((last + 1)); fi
        words[last]+=$word
    done
    cur=${words[last]}
    # The shell keeps this part of the current word, so a candidate must not repeat it.
    case $word in
    [=:@]*) kept=$cur ;;
    *) kept=${cur%"$word"} ;;
    esac
    COMPREPLY=()
    while IFS=$'\t' read -r word about; do
        if [[ $word == "-- $last" ]]; then
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -A command -- "$cur")
        elif [[ $word != '-- '* && $word == "$cur"* ]]; then
            printf -v word %q "$word"
            COMPREPLY+=("${word#"$kept"}")
        fi
    done < <("$program" __complete "${words[@]:1}" 2>/dev/null)
}
complete -o default -F _interlock interlock
"""

ZSH = r"""#compdef interlock
# Completion of interlock for zsh. In ~/.zshrc, after compinit: eval "$(interlock completion zsh)"
_interlock() {
    local program=${words[1]/#\~/$HOME}
    whence -p -- "$program" >/dev/null || program=interlock  # an alias
    local -a rows
    rows=("${(@f)$("$program" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ ${rows[1]} == '-- '* ]]; then
        integer foreign=$((${rows[1]#-- } + 1))
        words=("${(@)words[foreign,-1]}")
        ((CURRENT -= foreign - 1))
        _normal
    elif [[ -n ${rows[1]} ]]; then
        # _describe reads word:meaning.
        rows=("${(@)rows//\\/\\\\}")
        rows=("${(@)rows//:/\\:}")
        rows=("${(@)rows/$'\t'/:}")
        _describe interlock rows
    else
        if [[ ${words[CURRENT]} == --*=* ]]; then compset -P 1 '*='; fi
        _files
    fi
}
if [[ ${funcstack[1]} == _interlock ]]; then
    _interlock "$@"
else
    compdef _interlock interlock
fi
"""

FISH = r"""# Completion of interlock for fish. In ~/.config/fish/completions/interlock.fish:
# interlock completion fish | source
function __interlock
    set -l words (commandline -opc)
    set -l program (string replace -r -- '^~' $HOME $words[1])
    command -q $program; or set program interlock  # an alias
    set -e words[1]
    set -l cur (commandline -ct)
    set -l rows ($program __complete $words "$cur" 2>/dev/null)
    if string match -q -- '-- *' "$rows[1]"
        set -l first (string sub -s 4 -- $rows[1])
        set -l line (string escape -- $words) "$cur"
        complete -C (string join ' ' -- $line[$first..])
    else if set -q rows[1]
        printf '%s\n' $rows
    else
        __fish_complete_path (string replace -r -- '^--[^=]*=' '' "$cur")
    end
end
complete -c interlock -f -a '(__interlock)'
"""


@command(
    "completion SHELL",
    help={"shell": ("the shell", Choice("bash", "zsh", "fish"))},
    examples=("source <(interlock completion bash)",),
)
def completion(context: Context) -> Answer | int:
    """Print a completion script for your shell."""
    shell = context.values["shell"]
    script = {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell]
    if context.json:
        return {"shell": shell, "script": script}
    output.lines(script)
    return 0


def complete(words: Sequence[str], commands: Sequence[Command]) -> str:
    """Return the candidates for the last of these words, in the form that the scripts read."""
    *before, current = words or [""]
    commands = (*commands, HELP, VERSION)
    every: dict[str, Flag] = {}
    for flag in (*COMMON, *BUILT_IN, *(flag for one in commands for flag in one.flags)):
        every.setdefault(flag.name, flag)
    path: tuple[str, ...] = ()
    found: Command | None = None
    value_of: str | None = None
    flags_ended = False
    count = 0
    todo = list(enumerate(before, 1))[::-1]
    while todo:
        number, word = todo.pop()
        if not flags_ended and word == "--":
            if found is not None and found.rest:
                return f"-- {number + 1}"
            flags_ended = True
        elif not flags_ended and word in every and every[word].placeholder:
            if todo:
                todo.pop()
            else:
                value_of = word
        elif not flags_ended and is_flag(word):
            continue
        elif any(one.words[: len(path) + 1] == (*path, word) for one in commands):
            if (path, word) != ((), "help"):  # help takes the words of a command
                path = (*path, word)
                found = next((one for one in commands if one.words == path), None)
                count = 0
        else:
            if found is not None and found.rest and count == len(found.arguments):
                return f"-- {number}"
            count += 1
    prefix = ""
    if value_of is None and not flags_ended and current.startswith("--") and "=" in current:
        value_of = current.partition("=")[0]
        prefix = f"{value_of}="
    rows: list[tuple[str, str]] = []
    own = found.flags if found is not None else ()
    flags = [(flag.name, flag.help) for flag in (*own, *COMMON, *BUILT_IN)]
    if value_of is not None:
        valued = [flag for flag in (*own, *COMMON) if flag.name == value_of]
        rows = [(prefix + choice, "") for flag in valued for choice in flag.choices]
    elif not flags_ended and current.startswith("-"):
        rows = flags
    else:
        if found is not None and found.rest and count == len(found.arguments):
            return f"-- {len(words)}"
        if count == 0:
            following: dict[str, list[str]] = {}
            for one in commands:
                if one.words[: len(path)] == path and len(one.words) > len(path):
                    leads_to = [*one.words[len(path) + 1 : len(path) + 2], one.summary][0]
                    following.setdefault(one.words[len(path)], []).append(leads_to)
            rows = [(word, ", ".join(about)) for word, about in following.items()]
        if found is not None and count < len(found.arguments):
            rows += [(choice, "") for choice in found.arguments[count].choices]
        elif own and not rows and not flags_ended and count == 0:
            rows = flags
    return "\n".join(f"{word}\t{' '.join(about.split())}".rstrip("\t") for word, about in rows)
