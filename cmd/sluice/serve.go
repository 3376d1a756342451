package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/heap"
	"github.com/sluice-io/sluice/internal/terminal"
)

// serveCmd runs a server. Its flags take precedence over the environment, and the environment over
// the file.
type serveCmd struct {
	Dev        bool   `help:"Development mode: allow http:// endpoints on this machine, and NATS without a login."`
	Config     string `help:"Configuration file, JSON or YAML; config/example.yaml has every setting." env:"SLUICE_CONFIG" type:"path" placeholder:"FILE"`
	HTTP       string `name:"http" help:"host:port of the API; port 0 picks a free one." placeholder:"ADDR"`
	PublicURL  string `name:"public-url" help:"Public URL of the API." placeholder:"URL"`
	NATSListen string `name:"nats-listen" help:"host:port of the embedded NATS server; none keeps it inside the process." placeholder:"ADDR" xor:"nats"`
	NATS       string `name:"nats" help:"URL of an external NATS server, instead of the embedded one." placeholder:"URL" xor:"nats"`
	NATSCreds  string `name:"nats-creds" help:"Credentials file for --nats." type:"path" placeholder:"FILE"`
	NATSPrefix string `name:"nats-prefix" help:"Prefix of all streams, buckets and subjects, to share a NATS account." placeholder:"PREFIX"`
	Sync       string `help:"Interval at which data is flushed to disk, or always." placeholder:"1s"`
	LogFormat  string `name:"log-format" help:"Log format: text or json." placeholder:"text"`
	LogLevel   string `name:"log-level" help:"Log level: debug, info, warn or error." placeholder:"info"`
}

// Run runs the server until the context ends. Invalid settings are a usage error, before anything
// is opened. The log is on stderr; stdout stays empty. An interrupt ends it with exit status 0,
// unless work was left unfinished.
func (c *serveCmd) Run(ctx context.Context, s *terminal.Session) error {
	cfg, err := config.Load(c.Config, s.Environ)
	if err != nil {
		return terminal.Usage(err)
	}
	c.apply(&cfg, s.Data)
	if err := cfg.Check(); err != nil {
		return terminal.Usage(err)
	}
	log, flush, err := newLog(s.Stderr, cfg.Log)
	if err != nil {
		return err
	}
	defer flush()
	if err := hideMemory(); err != nil {
		log.WarnContext(ctx, "other processes of this user can read the server's memory", slog.Any("error", err))
	}
	if err := heap.Limit(); err != nil {
		log.WarnContext(ctx, "the memory limit of the control group is not respected", slog.Any("error", err))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heap.Pace()
	go heap.Return(ctx, log)
	if err := app.Run(ctx, cfg, app.Options{Log: log, Version: terminal.Version()}); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// apply overrides the settings with the flags.
func (c *serveCmd) apply(cfg *config.Config, data string) {
	for target, flag := range map[*string]string{
		&cfg.Data: data, &cfg.HTTP.Listen: c.HTTP, &cfg.HTTP.PublicURL: c.PublicURL,
		&cfg.NATS.Listen: c.NATSListen, &cfg.NATS.URL: c.NATS, &cfg.NATS.Credentials: c.NATSCreds, &cfg.NATS.Prefix: c.NATSPrefix, &cfg.NATS.Sync: c.Sync,
		&cfg.Log.Format: c.LogFormat, &cfg.Log.Level: c.LogLevel,
	} {
		if flag != "" {
			*target = flag
		}
	}
	if c.NATSListen != "" {
		cfg.NATS.URL = "" // the flag requests an embedded server, regardless of the file
	}
	cfg.Dev = cfg.Dev || c.Dev
}

// newLog returns a server's log, and a function that writes its buffered lines. Its lines pass
// through summing. flush must be called when the server has ended.
func newLog(w io.Writer, cfg config.Log) (log *slog.Logger, flush func(), err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		return nil, nil, fmt.Errorf("log.level: %w", err)
	}
	opts := &slog.HandlerOptions{Level: level}
	var out slog.Handler = slog.NewTextHandler(w, opts)
	if cfg.Format == "json" {
		out = slog.NewJSONHandler(w, opts)
	}
	h := newSumming(out)
	return slog.New(h), h.flush, nil
}

// versionCmd prints the version.
type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(s *terminal.Session) error {
	v := terminal.Version()
	return s.Show(map[string]string{"version": v}, func() error { return s.Say("sluice %s", v) })
}
