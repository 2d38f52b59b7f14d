"""The completion scripts of the shells, with `@names@` where `completion` puts the table.

All three walk the words before the cursor alike: they follow the words of a command, step over
flags with their values, and stop at a foreign command, which they complete as the shell would.
The scripts call nothing of ours, so a press of the tab key never waits for Interlock.
"""

BASH = r"""# Completion of interlock for bash. In ~/.bashrc: eval "$(interlock completion bash)"
_interlock() {
    local line=$COMP_LINE place= value_of= prefix= dashes= kept blank word wanted cur i
    local last=0 count=0 foreign=0
    local -a words rows
    COMPREPLY=()
    # Bash makes three words of --flag=value and two of @name: join what no blank divides.
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
    # What the shell keeps of the current word, and so must not be offered again.
    case $word in
    [=:@]*) kept=$cur ;;
    *) kept=${cur%"$word"} ;;
    esac
    for ((i = 1; i < last; i++)); do
        word=${words[i]}
        if [[ -z $dashes ]]; then
            case $word in
            --)
                dashes=1
                case $place in
                @runs@) foreign=$((i + 1)); break ;;
                esac
                continue
                ;;
            @valued@)
                if ((++i >= last)); then value_of=$word; fi
                continue
                ;;
            --* | -[a-z]*) continue ;;
            esac
        fi
        case "$place $word" in
        ' help') ;;
        @places@) place="$place $word" count=0 ;;
        *)
            case "$place|$count" in
            @runs_now@) foreign=$i; break ;;
            esac
            count=$((count + 1))
            ;;
        esac
    done
    if [[ -z $value_of && -z $dashes && $cur == --*=* ]]; then
        value_of=${cur%%=*} prefix=${cur%%=*}= cur=${cur#*=}
    fi
    if [[ -n $value_of ]]; then
        wanted=$value_of
    elif [[ -z $dashes && $cur == -* ]]; then
        wanted=-
    else
        wanted=$count
    fi
    case "$place|$wanted" in
    @only_flags@) if [[ -z $dashes ]]; then wanted=-; fi ;;
    @runs_now@) foreign=$last ;;
    esac
    if ((foreign)); then
        if ((foreign == last)); then
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -A command -- "$cur")
        fi
        return
    fi
    rows=()
    case "$place|$wanted" in
@cases@
    esac
    if [[ $wanted == - ]]; then rows+=(@common@); fi
    for word in ${rows[@]+"${rows[@]}"}; do
        if [[ $word == "$cur"* ]]; then
            printf -v word %q "$word"
            word=$prefix$word
            COMPREPLY+=("${word#"$kept"}")
        fi
    done
}
complete -o default -F _interlock interlock
"""

ZSH = r"""#compdef interlock
# Completion of interlock for zsh. In ~/.zshrc, after compinit: eval "$(interlock completion zsh)"
_interlock() {
    local cur=${words[CURRENT]} place= value_of= dashes= wanted word
    local -a rows
    integer i count=0 foreign=0
    for ((i = 2; i < CURRENT; i++)); do
        word=${words[i]}
        if [[ -z $dashes ]]; then
            case $word in
            --)
                dashes=1
                case $place in
                @runs@) foreign=$((i + 1)); break ;;
                esac
                continue
                ;;
            @valued@)
                if ((++i >= CURRENT)); then value_of=$word; fi
                continue
                ;;
            --* | -[a-z]*) continue ;;
            esac
        fi
        case "$place $word" in
        ' help') ;;
        @places@) place="$place $word" count=0 ;;
        *)
            case "$place|$count" in
            @runs_now@) foreign=$i; break ;;
            esac
            count=$((count + 1))
            ;;
        esac
    done
    if [[ -z $value_of && -z $dashes && $cur == --*=* ]]; then
        value_of=${cur%%=*}
        compset -P 1 '*='
    fi
    if [[ -n $value_of ]]; then
        wanted=$value_of
    elif [[ -z $dashes && $cur == -* ]]; then
        wanted=-
    else
        wanted=$count
    fi
    case "$place|$wanted" in
    @only_flags@) if [[ -z $dashes ]]; then wanted=-; fi ;;
    @runs_now@) foreign=$CURRENT ;;
    esac
    if ((foreign)); then
        words=("${(@)words[foreign,-1]}")
        ((CURRENT -= foreign - 1))
        _normal
        return
    fi
    case "$place|$wanted" in
@cases@
    esac
    if [[ $wanted == - ]]; then rows+=(@common@); fi
    if (($#rows)); then
        _describe interlock rows
    else
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
function __interlock_foreign
    set -l line (string escape -- $argv) (commandline -ct)
    complete -C (string join ' ' -- $line)
end
function __interlock
    set -l words (commandline -opc)
    set -e words[1]
    set -l cur (commandline -ct)
    set -l place ''
    set -l value_of
    set -l prefix ''
    set -l dashes
    set -l count 0
    set -l rows
    while set -q words[1]
        set -l word $words[1]
        set -e words[1]
        if not set -q dashes[1]
            switch $word
                case --
                    set dashes yes
                    switch $place
                        case @runs@
                            __interlock_foreign $words
                            return
                    end
                    continue
                case @valued@
                    if set -q words[1]
                        set -e words[1]
                    else
                        set value_of $word
                    end
                    continue
                case '--*' '-h'
                    continue
            end
        end
        switch "$place $word"
            case ' help'
            case @places@
                set place "$place $word"
                set count 0
            case '*'
                switch "$place|$count"
                    case @runs_now@
                        __interlock_foreign $word $words
                        return
                end
                set count (math $count + 1)
        end
    end
    if not set -q value_of[1]; and not set -q dashes[1]; and string match -q -- '--*=*' $cur
        set value_of (string split -m 1 = -- $cur)[1]
        set prefix "$value_of="
    end
    set -l wanted $count
    if set -q value_of[1]
        set wanted $value_of
    else if not set -q dashes[1]; and string match -q -- '-*' $cur
        set wanted -
    end
    switch "$place|$wanted"
        case @only_flags@
            if not set -q dashes[1]
                set wanted -
            end
        case @runs_now@
            __interlock_foreign
            return
    end
    switch "$place|$wanted"
@cases@
    end
    if test "$wanted" = -
        set -a rows @common@
    end
    if set -q rows[1]
        printf "$prefix%s\t%s\n" $rows
    else
        __fish_complete_path (string replace -- "$prefix" '' $cur)
    end
end
complete -c interlock -f -a '(__interlock)'
"""
