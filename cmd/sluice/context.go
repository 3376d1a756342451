package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// contextsCmd manages the contexts of this command.
type contextsCmd struct {
	Add  contextAddCmd  `cmd:"" help:"Add a context: --server and, if needed, --token, --ca, --cert and --key."`
	Use  contextUseCmd  `cmd:"" help:"Use a context for the commands that follow."`
	LS   contextLsCmd   `cmd:"" name:"ls" help:"List the contexts; a * marks the one in use."`
	Show contextShowCmd `cmd:"" help:"Show a context, without its token."`
	RM   contextRmCmd   `cmd:"" name:"rm" help:"Delete a context."`
}

// Help explains which setting takes precedence.
func (*contextsCmd) Help() string {
	return `A context is a server with a token, a namespace and certificates, in the user's configuration directory.

The server, the token and the namespace of a command come from its flags, else from the environment (SLUICE_URL, SLUICE_TOKEN, SLUICE_NS), else from the context, else from the data directory of this machine.
With --server, --data, SLUICE_URL or SLUICE_DATA, the context in use does not count; --context and SLUICE_CONTEXT name another one for one command.`
}

type contextAddCmd struct {
	Name      string `arg:"" help:"Name of the context."`
	NS        string `name:"ns" help:"Namespace that is the default of --ns." placeholder:"NAME"`
	TokenFile string `name:"token-file" help:"File with the token, read at each command; - keeps the token from stdin." placeholder:"FILE"`
	Use       bool   `help:"Use the context from now on."`
}

// Run writes the context. The file is readable by the user only. An existing context is not
// overwritten. The server is not asked, so a wrong token is noticed by the first command that uses
// it.
func (c *contextAddCmd) Run(s *terminal.Session) error {
	contexts, err := s.Contexts()
	if err != nil {
		return err
	}
	if err := terminal.CheckContextName(c.Name); err != nil {
		return err
	}
	if s.Server == "" {
		return terminal.Usagef("set the server of the context: --server https://sluice.example.com")
	}
	if err := terminal.CheckServer(s.Server); err != nil {
		return err
	}
	if _, err := contexts.Get(c.Name); sluice.CodeOf(err) != sluice.NotFound {
		return fmt.Errorf("context %q already exists; remove it with: sluice context rm %s", c.Name, c.Name)
	}
	added, err := c.context(s)
	if err != nil {
		return err
	}
	if err := contexts.Put(c.Name, added); err != nil {
		return err
	}
	if !c.Use {
		return cmdkit.Done(s, "Added context %s. Use it with: sluice context use "+c.Name, c.Name)
	}
	if err := contexts.Use(c.Name); err != nil {
		return err
	}
	return cmdkit.Done(s, "Added context %s, which is in use.", c.Name)
}

// context returns the context with absolute paths, so that it works in every directory. A token
// file stays a reference and is read by each command; a token from --token or stdin is stored.
func (c *contextAddCmd) context(s *terminal.Session) (terminal.Context, error) {
	added := terminal.Context{Server: s.Server, Token: s.Token, Namespace: c.NS, CA: s.CA, Cert: s.Cert, Key: s.Key}
	switch c.TokenFile {
	case "":
	case "-":
		token, err := io.ReadAll(s.Stdin)
		if err != nil {
			return added, fmt.Errorf("read the token: %w", err)
		}
		added.Token = strings.TrimSpace(string(token))
	default:
		added.Token, added.TokenFile = "", c.TokenFile
	}
	for _, file := range []*string{&added.TokenFile, &added.CA, &added.Cert, &added.Key} {
		if *file == "" {
			continue
		}
		if !exists(*file) {
			return added, fmt.Errorf("%s does not exist", *file)
		}
		var err error
		if *file, err = filepath.Abs(*file); err != nil {
			return added, err
		}
	}
	return added, nil
}

type contextUseCmd struct {
	Name string `arg:"" optional:"" help:"Context."`
	None bool   `help:"Use no context: commands use the server of the data directory again."`
}

// Run selects the context that commands use. Code NotFound for an unknown name; the one in use
// stays then.
func (c *contextUseCmd) Run(s *terminal.Session) error {
	contexts, err := s.Contexts()
	if err != nil {
		return err
	}
	if c.None == (c.Name != "") {
		return terminal.Usagef("name a context, or pass --none")
	}
	if c.None {
		if err := contexts.Use(""); err != nil {
			return err
		}
		return s.Show(map[string]string{"context": ""}, func() error { return s.Say("No context is in use.") })
	}
	if _, err := contexts.Get(c.Name); err != nil {
		return err
	}
	if err := contexts.Use(c.Name); err != nil {
		return err
	}
	return cmdkit.Done(s, "Context %s is in use.", c.Name)
}

// contextView is a context in JSON output, without its token.
type contextView struct {
	Name  string `json:"name"`
	InUse bool   `json:"in_use"`
	Kept  bool   `json:"token_kept"`
	terminal.Context
}

// viewOfContext returns a context for output: Kept says that it has a token, which is removed. Code
// NotFound.
func viewOfContext(contexts terminal.Contexts, name string) (contextView, error) {
	v := contextView{Name: name}
	var err error
	if v.Context, err = contexts.Get(name); err != nil {
		return v, err
	}
	current, err := contexts.Current()
	v.InUse, v.Kept, v.Token = current == name, v.Token != "", ""
	return v, err
}

func (v contextView) token() string {
	if v.Kept {
		return "kept"
	}
	return v.TokenFile
}

type contextLsCmd struct{}

// Run lists the contexts. A * marks the one in use, in the table only; JSON has in_use.
func (contextLsCmd) Run(s *terminal.Session) error {
	contexts, err := s.Contexts()
	if err != nil {
		return err
	}
	names, err := contexts.Names()
	if err != nil {
		return err
	}
	views, rows := make([]contextView, len(names)), make([][]string, len(names))
	for i, name := range names {
		if views[i], err = viewOfContext(contexts, name); err != nil {
			return err
		}
		mark := ""
		if views[i].InUse {
			mark = " *"
		}
		rows[i] = []string{name + mark, views[i].Server, terminal.OrDash(views[i].Namespace), terminal.OrDash(views[i].token())}
	}
	return s.Show(views, func() error { return s.Table("CONTEXT | SERVER | NAMESPACE | TOKEN", rows) })
}

type contextShowCmd struct {
	Name string `arg:"" optional:"" help:"Context; default: the one in use."`
}

// Run shows the context.
func (c *contextShowCmd) Run(s *terminal.Session) error {
	contexts, err := s.Contexts()
	if err != nil {
		return err
	}
	if c.Name == "" {
		if c.Name, err = contexts.Current(); err != nil {
			return err
		}
		if c.Name == "" {
			return sluice.Errorf(sluice.NotFound, "no context is in use; name one, or use one with: sluice context use NAME")
		}
	}
	v, err := viewOfContext(contexts, c.Name)
	if err != nil {
		return err
	}
	return s.Show(v, func() error {
		return s.Facts("context", v.Name, "server", v.Server, "namespace", v.Namespace, "token", v.token(), "ca", v.CA, "cert", v.Cert, "key", v.Key)
	})
}

type contextRmCmd struct {
	terminal.Confirmation

	Name string `arg:"" help:"Context."`
}

// Run deletes the context. It asks the user first if the context has a token.
func (c *contextRmCmd) Run(s *terminal.Session) error {
	contexts, err := s.Contexts()
	if err != nil {
		return err
	}
	found, err := contexts.Get(c.Name)
	if err != nil {
		return err
	}
	if found.Token != "" {
		if err := c.Confirm(s, terminal.Question("Delete the context %s with its token, which is kept nowhere else?", c.Name)); err != nil {
			return err
		}
	}
	if err := contexts.Remove(c.Name); err != nil {
		return err
	}
	return cmdkit.Done(s, "Deleted context %s.", c.Name)
}

// contextResolver gives flags the values of the context if neither the command line nor the
// environment has any.
type contextResolver struct{ session *terminal.Session }

// Validate accepts every command line.
func (contextResolver) Validate(*kong.Application) error { return nil }

// contextError is the error for a context that cannot be used. It does not name the flag that
// needed the context.
type contextError struct{ error }

// Unwrap returns the cause.
func (e contextError) Unwrap() error { return e.error }

// Resolve returns the value of a flag; nil if the context has none.
func (r contextResolver) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	value, err := r.resolve(ctx, flag)
	if err != nil {
		return nil, contextError{err}
	}
	return value, nil
}

// resolve returns the value of a flag in the context; nil if it has none. Flags and environment
// variables take precedence, except that --context takes precedence over the environment.
func (r contextResolver) resolve(ctx *kong.Context, flag *kong.Flag) (any, error) {
	ours := flag.Group != nil && flag.Group.Key == common && flag.Name != "context" || slices.Contains(flag.Envs, "SLUICE_NS")
	if !ours || !usesContext(ctx) {
		return nil, nil //nolint:nilnil // kong's way to say that there is no value
	}
	name, isFlag, err := r.name(ctx)
	if err != nil || name == "" || !isFlag && slices.ContainsFunc(flag.Envs, func(env string) bool { return r.session.Getenv(env) != "" }) {
		return nil, err
	}
	contexts, err := r.session.Contexts()
	if err != nil {
		return nil, err
	}
	found, err := contexts.Get(name)
	if err != nil {
		return nil, err
	}
	return valueOf(found, flag.Name)
}

// valueOf returns the value of a flag in a context; nil if it has none. An error if the token file
// of the context cannot be read.
func valueOf(found terminal.Context, flag string) (any, error) {
	values := map[string]string{"server": found.Server, "ns": found.Namespace, "default-ns": found.Namespace, "ca": found.CA, "cert": found.Cert, "key": found.Key}
	if flag == "token" {
		token, err := found.BearerToken()
		if err != nil {
			return nil, err
		}
		values[flag] = token
	}
	if values[flag] == "" {
		return nil, nil //nolint:nilnil // see Resolve
	}
	return values[flag], nil
}

// name returns the name of the context of a command line, empty if there is none, and whether a
// flag names it. The order is --context, --server and --data, SLUICE_URL and SLUICE_DATA,
// SLUICE_CONTEXT, and then the context in use.
func (r contextResolver) name(ctx *kong.Context) (name string, isFlag bool, err error) {
	given := map[string]string{}
	for _, at := range ctx.Path {
		if at.Flag != nil {
			given[at.Flag.Name] = fmt.Sprint(ctx.FlagValue(at.Flag))
		}
	}
	elsewhere := given["server"] + given["data"]
	switch {
	case given["context"] != "" && elsewhere != "":
		return "", true, terminal.Usagef("--context excludes --server and --data")
	case given["context"] != "":
		return given["context"], true, nil
	case elsewhere != "" || r.session.Getenv("SLUICE_URL") != "" || r.session.Getenv("SLUICE_DATA") != "":
		return "", false, nil
	case r.session.Getenv("SLUICE_CONTEXT") != "":
		return r.session.Getenv("SLUICE_CONTEXT"), false, nil
	}
	contexts, err := r.session.Contexts()
	if err != nil {
		return "", false, nil //nolint:nilerr // without a directory for them there are no contexts
	}
	name, err = contexts.Current()
	return name, false, err
}

// usesContext reports whether a command is about a server that a context can name. Commands about
// this machine or about no server do not read contexts, so a damaged one does not stop them.
func usesContext(ctx *kong.Context) bool {
	command := ctx.Selected()
	for command != nil && command.Parent != nil && command.Parent.Parent != nil {
		command = command.Parent
	}
	return command != nil && !slices.Contains([]string{
		"backup", "completion", "context", "demo", "help", "man", "nats-context", "receive", "restore", "serve", "sign", "verify", "version",
	}, command.Name)
}
