package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/sluice-io/sluice/internal/terminal"
)

// common is the group of the global flags.
const common = "common"

// helpCmd makes the help appear in the list of commands. helpArgs turns it into --help.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command, such as sub create."`
}

// helpArgs returns the arguments with "help sub create" as "sub create --help".
func helpArgs(args []string) []string {
	if len(args) > 0 && args[0] == "help" {
		return append(slices.DeleteFunc(slices.Clone(args[1:]), func(arg string) bool { return arg == "help" }), "--help")
	}
	return args
}

// versionFlag prints the version.
type versionFlag bool

// BeforeReset prints the version before anything else is checked.
func (versionFlag) BeforeReset(k *kong.Kong, s *terminal.Session) error {
	err := versionCmd{}.Run(s)
	k.Exit(0)
	return err
}

// addAliases adds other common names of verbs. An alias that is the name of a sibling is not added.
func addAliases(k *kong.Kong) error {
	names := map[string][]string{"ls": {"list"}, "rm": {"delete", "remove"}, "show": {"get"}, "get": {"show"}, "create": {"add", "new"}, "add": {"create", "new"}, "edit": {"update"}}
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		parent, ok := node.(*kong.Node)
		if !ok {
			return next(nil)
		}
		taken := map[string]bool{}
		for _, child := range parent.Children {
			taken[child.Name] = true
		}
		for _, child := range parent.Children {
			for _, name := range names[child.Name] {
				if !taken[name] {
					child.Aliases = append(child.Aliases, name)
				}
			}
		}
		return next(nil)
	})
}

// incomplete returns the context of a command line that ends at a group of commands; nil for any
// other command line.
func incomplete(err error) *kong.Context {
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok || !strings.HasPrefix(err.Error(), "expected one of ") && !strings.HasPrefix(err.Error(), `expected "`) {
		return nil
	}
	node := parse.Context.Model.Node
	if selected := parse.Context.Selected(); selected != nil {
		node = selected
	}
	if len(node.Children) == 0 {
		return nil
	}
	return parse.Context
}

// printHelp prints the help. The help of a command has examples, and one line instead of the global
// flags.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	text := ""
	if selected := ctx.Selected(); selected != nil {
		text = commandNotes(selected)
		hideCommon(ctx.Model.Node, selected)
	}
	hideAliases(ctx.Model.Node)
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return fmt.Errorf("print the help: %w", err)
	}
	if _, err := fmt.Fprint(ctx.Stdout, text); err != nil {
		return fmt.Errorf("print the help: %w", err)
	}
	return nil
}

// commandNotes returns the last part of a command's help.
func commandNotes(command *kong.Node) string {
	text := ""
	if len(command.Aliases) > 0 {
		text = "\nAliases: " + strings.Join(command.Aliases, ", ") + "\n"
	}
	if shown := examples()[commandName(command)]; len(shown) > 0 {
		text += "\nExamples:\n  " + strings.Join(shown, "\n  ") + "\n"
	}
	return text + "\nsluice --help lists the global flags.\n"
}

// hideCommon hides the group of a command and the global flags. It changes the model, which is not
// used after the help.
func hideCommon(root, command *kong.Node) {
	for ; command != nil; command = command.Parent {
		command.Group = nil
	}
	for _, flag := range root.Flags {
		if flag.Name != "help" {
			flag.Hidden = true
		}
	}
}

// hideAliases removes the aliases, because there are too many of them for a list of commands.
func hideAliases(node *kong.Node) {
	node.Aliases = nil
	for _, child := range node.Children {
		hideAliases(child)
	}
}

// commandName returns the words of a command, such as "sub create".
func commandName(node *kong.Node) string {
	var words []string
	for ; node != nil && node.Parent != nil; node = node.Parent {
		words = append([]string{node.Name}, words...)
	}
	return strings.Join(words, " ")
}

// examples returns examples for commands. A test parses them. Keys are the words of commandName.
func examples() map[string][]string {
	return map[string][]string{
		"serve": {"sluice serve --dev", "sluice serve --config /etc/sluice.yaml", "sluice serve --nats nats://nats.example.com:4222 --nats-creds sluice.creds"},
		"demo":  {"sluice demo"},
		"sub": {
			"sluice sub create --pattern '/orders/**' --url https://example.com/hook", "sluice sub ls", "sluice sub test orders",
		},
		"sub create": {
			"sluice sub create --id orders --pattern '/orders/**' --url https://example.com/hook",
			"sluice sub create --pattern '/**' --type 'invoice.*' --url https://example.com/hook --retry persistent",
			"sluice sub create --mode wake --id agents --pattern '/tasks/**' --url http://127.0.0.1:9000/wake",
		},
		"sub seek":   {"sluice sub seek orders 10m", "sluice sub seek orders new --yes"},
		"sub replay": {"sluice sub replay orders --from 2h --dry-run", "sluice sub replay orders --from 2h --rate 50 --wait", "sluice sub replay orders --event evt_1"},
		"sub rotate": {"sluice sub rotate orders --overlap 24h"},
		"pub": {
			"sluice pub /orders/42 '{\"total\":5}' --type order.created", "sluice pub /notes/1 'plain text'", "sluice pub --from events.jsonl",
		},
		"status":       {"sluice status", "sluice status --health failing,held --ns acme", "sluice status --watch"},
		"event":        {"sluice event evt_1", "sluice event evt_1 --ns acme --all"},
		"sub probe":    {"sluice sub probe orders"},
		"sub retry":    {"sluice sub retry orders"},
		"deliveries":   {"sluice deliveries orders --state failed --since 1h", "sluice deliveries orders evt_1", "sluice deliveries orders evt_1 --retry"},
		"receive":      {"sluice receive", "sluice receive 9000 --secret whsec_c2VjcmV0", "sluice receive 9000 --fail 3 --status 503 --delay 2s"},
		"verify":       {"sluice verify request.txt --secret-file secret.txt", "sluice verify body.json -H 'webhook-id: e1' -H 'webhook-timestamp: 1767225600' -H 'webhook-signature: v1,…' --secret whsec_c2VjcmV0"},
		"sign":         {"sluice sign body.json --secret whsec_c2VjcmV0", "sluice sign body.json --secret whsec_c2VjcmV0 --request"},
		"completion":   {"sluice completion bash"},
		"context":      {"sluice context add prod --server https://sluice.example.com --token-file prod.token --ns acme", "sluice context use prod", "sluice context ls"},
		"context add":  {"sluice context add prod --server https://sluice.example.com --token-file prod.token --ns acme --use"},
		"listen":       {"sluice listen 3000", "sluice listen http://localhost:3000/hook --type 'order.*' --since 10m", "sluice listen 3000 --last 20 --bodies"},
		"events":       {"sluice events ls --type 'order.*'", "sluice events get evt_1"},
		"events ls":    {"sluice events ls --limit 20", "sluice events ls --since 10m --pattern '/orders/**'"},
		"feed":         {"sluice feed", "sluice feed '/orders/**' --since 10m", "sluice feed --type 'order.*' -o json"},
		"state":        {"sluice state '/orders/**'"},
		"dead":         {"sluice dead ls orders", "sluice dead redrive orders --all --rate 10"},
		"dead redrive": {"sluice dead redrive orders evt_1 evt_2", "sluice dead redrive orders --all --rate 10"},
		"dead rm":      {"sluice dead rm orders evt_1", "sluice dead rm orders --all --yes"},
		"schedule":     {"sluice schedule add /reminders/1 '{\"text\":\"call\"}' --in 15m", "sluice schedule ls"},
		"ns":           {"sluice ns put acme --max-age 720h", "sluice ns show acme", "sluice ns rm acme"},
		"ns put":       {"sluice ns put acme --max-age 720h --max-bytes 1000000000"},
		"grant":        {"sluice grant create user:ann scope:acme --verbs read,publish --for 30d", "sluice grant ls"},
		"grant create": {"sluice grant create user:ann scope:acme --verbs read,publish --for 30d", "sluice grant create service:billing 'path:acme/invoices/**' --verbs subscribe --for 24h --token-only"},
		"audit":        {"sluice audit --since 1h", "sluice audit --resource orders"},
		"doctor":       {"sluice doctor"},
	}
}
