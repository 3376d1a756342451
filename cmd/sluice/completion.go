package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/sluice-io/sluice/internal/terminal"
)

// completeWord is the hidden command that the shells' scripts call. Its arguments are the words
// before the cursor, and the word at the cursor after a "=", because not every shell passes on an
// empty word.
const completeWord = "__complete"

// completionCmd prints the script that makes a shell complete command lines.
type completionCmd struct {
	Shell string `arg:"" help:"Shell: bash, zsh, fish or powershell." enum:"bash,zsh,fish,powershell"`
}

// Help explains how to use the script.
func (*completionCmd) Help() string {
	return `Load it in the shell's start file:

    bash        source <(sluice completion bash)
    zsh         source <(sluice completion zsh), after compinit
    fish        sluice completion fish | source
    powershell  sluice completion powershell | Out-String | Invoke-Expression`
}

// Run prints the script.
func (c *completionCmd) Run(s *terminal.Session) error {
	return s.PrintText([]byte(completionScripts()[c.Shell]), nil)
}

// completionScripts returns the scripts by shell. Each script passes the words before the cursor
// and the one at it, after a "=", to completeWord. If there is no candidate, it falls back to file
// names; PowerShell does so by itself.
func completionScripts() map[string]string {
	return map[string]string{
		"bash": `_sluice() {
  local value rest
  COMPREPLY=()
  while IFS=$'\t' read -r value rest; do
    COMPREPLY+=("$value")
  done < <(sluice __complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" "=${COMP_WORDS[COMP_CWORD]}" 2>/dev/null)
}
complete -o default -F _sluice sluice
`,
		"zsh": `#compdef sluice
_sluice() {
  local -a all
  local value rest
  while IFS=$'\t' read -r value rest; do
    all+=("${value//:/\\:}:$rest")
  done < <(sluice __complete "${(@)words[2,CURRENT-1]}" "=${words[CURRENT]}" 2>/dev/null)
  if (( $#all )); then
    _describe sluice all
  else
    _files
  fi
}
if [[ "${funcstack[1]}" == _sluice ]]; then
  _sluice
else
  compdef _sluice sluice
fi
`,
		"fish": `function __sluice_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l all (sluice __complete $words[2..-1] "=$current" 2>/dev/null)
  if test (count $all) -gt 0
    printf '%s\n' $all
  else
    __fish_complete_path "$current"
  end
end
complete -c sluice -f -a '(__sluice_complete)'
`,
		"powershell": `Register-ArgumentCompleter -Native -CommandName sluice -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)
  $before = @($commandAst.CommandElements | Select-Object -Skip 1 |
    Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | ForEach-Object { $_.Extent.Text })
  & sluice __complete @before "=$wordToComplete" 2>$null | ForEach-Object {
    $value, $rest = $_ -split [char]9, 2
    if (-not $rest) { $rest = $value }
    [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $rest)
  }
}
`,
	}
}

// candidate is a word that can stand at the cursor.
type candidate struct{ value, help string }

// complete prints the candidates for the words of the hidden command, one per line. A line is the
// word, a tab and its help. An unknown command line has no candidates and is no error, so that a
// shell prints nothing into the line. It makes no request to a server.
func complete(s *terminal.Session, model *kong.Application, words []string) error {
	if len(words) == 0 {
		return nil
	}
	last := strings.TrimPrefix(words[len(words)-1], "=")
	for _, one := range candidates(model.Node, words[:len(words)-1], last) {
		if err := s.Say("%s\t%s", one.value, one.help); err != nil {
			return err
		}
	}
	return nil
}

// cursor is the position at which a word is completed: a command, a flag's value or an argument.
// Completion does not use the parser, because an unfinished command line is invalid.
type cursor struct {
	node  *kong.Node
	flag  *kong.Flag // that needs a value
	place int        // of an argument
}

// step moves the cursor past a word. A flag without "=" takes the next word as its value unless it
// is boolean. Unknown flags are skipped.
func (c *cursor) step(word string) {
	switch {
	case c.flag != nil:
		if word != "=" { // bash splits there
			c.flag = nil
		}
	case strings.HasPrefix(word, "-"):
		if c.flag = flagOf(c.node, word); c.flag != nil && c.flag.IsBool() {
			c.flag = nil
		}
	default:
		if child := childOf(c.node, word); child != nil {
			c.node, c.place = child, 0
			return
		}
		c.place++
	}
}

// candidates returns the words that can stand at the cursor.
func candidates(root *kong.Node, before []string, last string) []candidate {
	at := cursor{node: root}
	for _, word := range before {
		at.step(word)
	}
	name, value, assigned := strings.Cut(last, "=")
	switch {
	case at.flag != nil:
		return matching(enumOf(at.flag.Value), last)
	case assigned && strings.HasPrefix(last, "-"):
		return assignments(at.node, name, value)
	case strings.HasPrefix(last, "-"):
		return matching(flagsOf(at.node), last)
	}
	return matching(at.words(), last)
}

// assignments returns the candidates of the form --name=VALUE.
func assignments(node *kong.Node, name, value string) []candidate {
	flag := flagOf(node, name)
	if flag == nil {
		return nil
	}
	found := matching(enumOf(flag.Value), value)
	for i := range found {
		found[i].value = name + "=" + found[i].value
	}
	return found
}

// words returns the commands and the values of the argument at the cursor.
func (c *cursor) words() (all []candidate) {
	for _, child := range c.node.Children {
		if !child.Hidden {
			all = append(all, candidate{child.Name, child.Help})
		}
	}
	if c.place < len(c.node.Positional) {
		all = append(all, enumOf(c.node.Positional[c.place])...)
	}
	return all
}

func matching(all []candidate, prefix string) []candidate {
	return slices.DeleteFunc(all, func(one candidate) bool { return !strings.HasPrefix(one.value, prefix) })
}

// enumOf returns the values of a flag or an argument, without the empty one for an absent flag.
func enumOf(value *kong.Value) (all []candidate) {
	if value.Enum == "" {
		return nil
	}
	for _, name := range value.EnumSlice() {
		if name != "" {
			all = append(all, candidate{value: name})
		}
	}
	return all
}

// flagsOf returns the flags of a command and of its parents; the global flags are those of the
// root.
func flagsOf(node *kong.Node) (all []candidate) {
	for ; node != nil; node = node.Parent {
		for _, flag := range node.Flags {
			if !flag.Hidden {
				all = append(all, candidate{"--" + flag.Name, flag.Help})
			}
		}
	}
	return all
}

// flagOf returns the flag of a word that needs the next word as its value; nil if the flag is
// unknown or has its value.
func flagOf(node *kong.Node, word string) *kong.Flag {
	for ; node != nil; node = node.Parent {
		for _, flag := range node.Flags {
			short := flag.Short != 0 && word == "-"+string(flag.Short)
			if short || word == "--"+flag.Name || slices.Contains(flag.Aliases, strings.TrimPrefix(word, "--")) {
				return flag
			}
		}
	}
	return nil
}

// childOf returns the command of a word, which may be an alias; nil if there is none.
func childOf(node *kong.Node, word string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == word || slices.Contains(child.Aliases, word) {
			return child
		}
	}
	return nil
}

// manCmd prints the manual page.
type manCmd struct{}

// Help says how to read and install the page.
func (manCmd) Help() string {
	return "Read it with: sluice man | man -l -\nInstall it as share/man/man1/sluice.1."
}

// Run prints the page.
func (manCmd) Run(s *terminal.Session, k *kong.Kong) error {
	return s.PrintText([]byte(manPage(k.Model)), nil)
}

// manPage returns the manual page in the language of man(7).
func manPage(model *kong.Application) string {
	var page strings.Builder
	fmt.Fprintf(&page, ".TH SLUICE 1\n.SH NAME\nsluice \\- %s\n.SH SYNOPSIS\n.B sluice\n.I command\n[flags]\n.SH DESCRIPTION\n%s\n",
		roff("deliver events of NATS JetStream"), roff(model.Help))
	page.WriteString(".SH GLOBAL FLAGS\n")
	manFlags(&page, model.Flags)
	for _, group := range groups() {
		var commands []*kong.Node
		for _, command := range model.Children {
			if command.Group != nil && command.Group.Key == group.Key && !command.Hidden {
				commands = append(commands, command)
			}
		}
		if len(commands) > 0 {
			fmt.Fprintf(&page, ".SH %s\n", roff(strings.ToUpper(strings.TrimSuffix(group.Title, ":"))))
		}
		for _, command := range commands {
			manCommand(&page, command)
		}
	}
	page.WriteString(".SH EXIT STATUS\n0 if the command succeeded, 1 if it failed, 2 if the command line is wrong, 141 if the reader of its output left.\n")
	return page.String()
}

// manCommand writes a command and those below it. Groups of commands have no section of their own.
func manCommand(page *strings.Builder, command *kong.Node) {
	if len(command.Children) > 0 {
		for _, child := range command.Children {
			manCommand(page, child)
		}
		return
	}
	if command.Hidden {
		return
	}
	name := commandName(command)
	fmt.Fprintf(page, ".SS %s\n%s\n", roff("sluice "+name), roff(command.Help))
	if command.Detail != "" {
		fmt.Fprintf(page, ".PP\n%s\n", roff(command.Detail))
	}
	for _, arg := range command.Positional {
		fmt.Fprintf(page, ".TP\n.I %s\n%s\n", roff(arg.Summary()), roff(arg.Help))
	}
	manFlags(page, command.Flags)
	if shown := examples()[name]; len(shown) > 0 {
		fmt.Fprintf(page, ".PP\nExamples:\n.PP\n.nf\n%s\n.fi\n", roff(strings.Join(shown, "\n")))
	}
}

func manFlags(page *strings.Builder, flags []*kong.Flag) {
	for _, flag := range flags {
		if !flag.Hidden {
			fmt.Fprintf(page, ".TP\n.B %s\n%s\n", roff(flag.Summary()), roff(kong.DefaultHelpValueFormatter(flag.Value)))
		}
	}
}

// roff escapes a text for man(7): backslashes, hyphens, and lines that begin like a request.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
