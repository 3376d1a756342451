package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/seal/keyfile"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	checkLimit = 5 * time.Second
	maxSkew    = 30 * time.Second // receivers allow five minutes; more than this is a broken clock
	fewBytes   = 1 << 30
)

// Cmd checks a server on this machine and everything that it needs. It changes nothing, except that
// --forget removes the record of damage. It writes a probe file in the data directory, and removes
// it.
type Cmd struct {
	Config string `help:"Configuration file to check." env:"SLUICE_CONFIG" type:"path" placeholder:"FILE"`
	Deep   bool   `help:"Make the server read everything that is stored, and report unreadable data."`
	Forget bool   `help:"Acknowledge the damage that was found."`
}

// finding is the result of one check. fail makes the exit status 1; warn and skip do not.
type finding struct {
	Check  string `json:"check"`
	Result string `json:"result"` // ok, warn, fail, skip
	Detail string `json:"detail"`
}

// examination is one run: later checks build on the results of earlier ones. It is used by one
// goroutine. A check whose condition an earlier one did not establish notes skip. The order, in
// which access comes before storage, and nats last:
//
//	config ─► data, disk, token, secrets ─► addresses ─► server ─┬─► storage, stored: also if not ready
//	                                                             └─► access, grants, types, …
type examination struct {
	session   *terminal.Session
	data      string
	cfg       config.Config
	addresses datadir.Addresses
	api       *client.Client // nil: the server is not ready
	reached   bool           // it answers, ready or not
	findings  []finding
}

// Run makes the checks and prints the findings. It returns an error if a check fails. Every check
// notes at least one finding, except those of modules and certificates. Each check that asks the
// server or NATS has checkLimit; with --deep, reading takes as long as the store needs.
func (c *Cmd) Run(ctx context.Context, s *terminal.Session) error {
	e := &examination{session: s}
	e.checkConfig(c.Config)
	e.checkData()
	e.checkDisk()
	e.checkToken()
	e.checkSecrets()
	e.checkAddresses()
	e.checkHTTP(ctx)
	e.checkAccess(ctx)
	e.checkRoom(ctx)
	e.checkStored(ctx, c)
	e.checkGrants(ctx)
	e.checkTypes(ctx)
	e.checkSubscriptions(ctx)
	e.checkModules(ctx)
	e.checkNATS(ctx)
	err := s.Show(e.findings, func() error {
		rows := make([][]string, len(e.findings))
		for i, f := range e.findings {
			rows[i] = []string{f.Result, f.Check, f.Detail}
		}
		return s.Table("", rows)
	})
	if failed := e.failed(); err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d checks failed", failed, len(e.findings))
	}
	return err
}

// note adds a finding; result is ok, warn, fail or skip.
func (e *examination) note(check, result, format string, args ...any) {
	e.findings = append(e.findings, finding{check, result, fmt.Sprintf(format, args...)})
}

// failed returns the number of findings that are fail.
func (e *examination) failed() int {
	n := 0
	for _, f := range e.findings {
		if f.Result == "fail" {
			n++
		}
	}
	return n
}

// checkConfig reads the settings as serve would. Later checks continue with the data directory even
// if other settings are invalid.
func (e *examination) checkConfig(file string) {
	cfg, err := config.Load(file, e.session.Environ)
	if err == nil {
		if e.session.Data != "" {
			cfg.Data = e.session.Data
		}
		err = cfg.Check()
	}
	e.data, e.cfg = cfg.Data, cfg
	if e.data == "" {
		e.data = e.session.Data
	}
	if err != nil {
		e.note("config", "fail", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	e.note("config", "ok", "%s", source(file))
}

// source names the place of the settings.
func source(file string) string {
	if file == "" {
		return "defaults and environment"
	}
	return file
}

// checkData checks that the data directory can be written. A missing one is a warning, because the
// first start creates it.
func (e *examination) checkData() {
	info, err := os.Stat(e.data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.note("data", "warn", "%s does not exist yet; sluice serve creates it", e.data)
	case err != nil:
		e.note("data", "fail", "%v", err)
	case !info.IsDir():
		e.note("data", "fail", "%s is not a directory", e.data)
	default:
		e.checkWritable()
	}
}

// checkWritable creates and removes a file, because permissions alone do not show a read-only
// mount.
func (e *examination) checkWritable() {
	probe, err := os.CreateTemp(e.data, ".doctor-*")
	if err != nil {
		e.note("data", "fail", "%v", err)
		return
	}
	err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	if err != nil {
		e.note("data", "fail", "%v", err)
		return
	}
	e.note("data", "ok", "%s is writable", e.data)
}

// checkDisk warns below fewBytes of free space.
func (e *examination) checkDisk() {
	free, err := freeBytes(existing(e.data))
	switch {
	case err != nil:
		e.note("disk", "skip", "%v", err)
	case free < fewBytes:
		e.note("disk", "warn", "only %s free", mebibytes(free))
	default:
		e.note("disk", "ok", "%s free", mebibytes(free))
	}
}

// existing returns the directory, or its nearest existing ancestor. It ends at the root, which
// exists.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// mebibytes formats a number of bytes, rounded down.
func mebibytes(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }

// checkToken checks the root token's file without reading it. A file that others can read is a
// failure, because the token permits everything.
func (e *examination) checkToken() {
	if e.session.Token != "" {
		e.note("token", "ok", "from SLUICE_TOKEN or --token")
		return
	}
	file := filepath.Join(e.data, datadir.RootTokenFile)
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.note("token", "warn", "%s does not exist yet; the first start creates it", file)
	case err != nil:
		e.note("token", "fail", "%v", err)
	case info.Size() == 0:
		e.note("token", "fail", "%s is empty; delete it, and the next start creates a new one", file)
	case info.Mode().Perm()&0o077 != 0:
		e.note("token", "fail", "%s is readable by other users (mode %04o); run chmod 600 on it", file, info.Mode().Perm())
	default:
		e.note("token", "ok", "%s", file)
	}
}

// checkSecrets checks the keys that seal secrets, without showing any of them.
func (e *examination) checkSecrets() {
	detail, err := keyfile.Check(e.cfg)
	switch {
	case err == nil:
		e.note("secrets", "ok", "%s", detail)
	case errors.Is(err, fs.ErrNotExist) && e.cfg.Secrets.KeyFile == "":
		e.note("secrets", "warn", "%s does not exist yet; the first start creates it", filepath.Join(e.data, datadir.SecretsKeyFile))
	default:
		e.note("secrets", "fail", "%v", err)
	}
}

// checkAddresses finds the server: that of --server, or the one that wrote its addresses into the
// data directory.
func (e *examination) checkAddresses() {
	if e.session.Server != "" {
		if err := terminal.CheckServer(e.session.Server); err != nil {
			e.note("addresses", "fail", "%v", err)
			return
		}
		e.addresses.HTTP = e.session.Server
		e.note("addresses", "ok", "%s from SLUICE_URL or --server", e.session.Server)
		return
	}
	var err error
	e.addresses, err = terminal.ReadAddresses(e.data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.note("addresses", "fail", "no server is running on %s; start one with sluice serve", e.data)
	case err != nil:
		e.note("addresses", "fail", "%v", err)
	default:
		e.note("addresses", "ok", "%s, NATS %s", e.addresses.HTTP, terminal.OrDash(e.addresses.NATS))
	}
}

// checkHTTP asks for the readiness without a token, and sets api and reached.
func (e *examination) checkHTTP(ctx context.Context) {
	if e.addresses.HTTP == "" {
		e.note("server", "skip", "its address is unknown")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	api, err := e.session.ClientOf(e.addresses.HTTP, "")
	if err != nil {
		e.note("server", "fail", "%v", err)
		return
	}
	before := time.Now()
	at, err := api.Ready(ctx)
	e.reached = err == nil || sluice.CodeOf(err) == sluice.Unavailable
	if err != nil {
		e.note("server", "fail", "not ready: %v", e.session.WithAdvice(err))
		return
	}
	e.api = api
	e.noteReady(time.Since(before).Round(100 * time.Microsecond))
	e.checkClock(at)
}

// noteReady warns if tokens and events cross a network unencrypted.
func (e *examination) noteReady(after time.Duration) {
	if strings.HasPrefix(e.addresses.HTTP, "http:") && !onThisMachine(e.addresses.HTTP) {
		e.note("server", "warn", "ready after %s, without TLS: tokens and events can be read in transit to %s; set http.tls, or listen on 127.0.0.1 behind a TLS proxy", after, e.addresses.HTTP)
		return
	}
	e.note("server", "ok", "ready after %s", after)
}

// checkClock compares this machine's clock with that of the server, in whole seconds, as the header
// Date has no finer ones.
func (e *examination) checkClock(server time.Time) {
	skew := time.Since(server).Abs().Truncate(time.Second)
	switch {
	case server.IsZero():
		e.note("clock", "skip", "the server does not report its time")
	case skew > maxSkew:
		e.note("clock", "fail", "the server's clock differs from this one by %s; receivers refuse signatures that are too old or too new", skew)
	default:
		e.note("clock", "ok", "within %s of the server's", skew+time.Second)
	}
}

// checkAccess checks the token with a list of namespaces.
func (e *examination) checkAccess(ctx context.Context) {
	token, err := e.session.BearerToken()
	if e.api == nil || err != nil {
		e.note("access", "skip", "no server or no token")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	api, err := e.session.ClientOf(e.addresses.HTTP, token)
	if err == nil {
		_, err = api.Namespaces(ctx, "")
	}
	switch err = e.session.WithAdvice(err); {
	case err == nil:
		e.note("access", "ok", "the token permits listing namespaces")
	case sluice.CodeOf(err) == sluice.Forbidden:
		e.note("access", "warn", "the token is valid, but does not permit listing namespaces")
	default:
		e.note("access", "fail", "%v", err)
	}
}

// checkNATS reads the greeting of the NATS server that clients use, without a login.
func (e *examination) checkNATS(ctx context.Context) {
	if e.addresses.NATS == "" {
		e.note("nats", "skip", "it does not listen on a port, or its address is unknown")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	greeting, err := greet(ctx, e.addresses.NATS)
	switch {
	case err != nil:
		e.note("nats", "fail", "%v", err)
	case !strings.HasPrefix(greeting, "INFO "):
		e.note("nats", "fail", "the service at %s is not NATS", e.addresses.NATS)
	default:
		e.checkDoor(strings.TrimPrefix(greeting, "INFO "))
	}
}

// checkDoor checks from the INFO line of NATS whether it accepts clients from other machines
// without a login or TLS.
func (e *examination) checkDoor(info string) {
	var says struct {
		Auth bool `json:"auth_required"`
		TLS  bool `json:"tls_required"`
	}
	if err := json.Unmarshal([]byte(info), &says); err != nil {
		e.note("nats", "fail", "the server information of %s cannot be read", e.addresses.NATS)
		return
	}
	abroad := false
	for one := range strings.SplitSeq(e.addresses.NATS, ",") {
		abroad = abroad || !onThisMachine(one)
	}
	switch {
	case abroad && !says.Auth:
		e.note("nats", "warn", "%s accepts every client without a login: set nats.users, or listen on 127.0.0.1", e.addresses.NATS)
	case abroad && !says.TLS:
		e.note("nats", "warn", "%s responds, without TLS: events and passwords can be read in transit; set nats.server_tls", e.addresses.NATS)
	default:
		e.note("nats", "ok", "%s responds; events are published to %s<namespace>.<path>", e.addresses.NATS, streams.Prefixed(e.addresses.Prefix).EventsPrefix())
	}
}

// onThisMachine reports whether an address is on this machine. A name other than localhost counts
// as another machine.
func onThisMachine(address string) bool {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// greet returns the first line that a NATS server sends. If there are several addresses, it
// connects to the first. ctx bounds the connection and the read. The connection is closed without a
// login.
func greet(ctx context.Context, addresses string) (string, error) {
	address, _, _ := strings.Cut(addresses, ",")
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("address of NATS: %w", err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }() // it was only read
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetReadDeadline(deadline); err != nil {
			return "", err
		}
	}
	greeting, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s does not respond: %w", address, err)
	}
	return greeting, nil
}
