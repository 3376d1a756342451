package config

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// second is the minimum age and window of a log.
const second = sluice.Duration(time.Second)

const (
	maxQuota    = 1 << 30 // above any realistic rate
	minResponse = 1 << 10 // minimum part of a response that is kept
)

// Check returns all invalid settings, joined, each as an error with code InvalidRequest that names
// the valid values; nil if there are none. It accesses neither files nor the network.
func (c Config) Check() error {
	errs := []error{
		when(c.Data == "", "data: name a directory; without HOME and XDG_DATA_HOME, it has no default"),
		c.HTTP.check(),
		c.Portal.check(),
		c.NATS.check(),
		c.Events.check(),
		when(c.Attempts.MaxAge < second, "attempts.max_age %s: write at least 1s, such as 168h", c.Attempts.MaxAge),
		c.Webhooks.check(),
		c.Durable.check(),
		c.Feed.check(),
		c.Watches.check(),
		c.Mirrors.check(),
		c.Modules.check(),
		c.Limits.check(),
		c.Log.check(),
		when(c.ShutdownGrace < second, "shutdown_grace %s: write a duration of at least 1s, such as 5s", c.ShutdownGrace),
		c.Tracing.check(),
		checkURL("metrics.endpoint", c.Metrics.Endpoint),
	}
	return errors.Join(errs...)
}

func (n NATS) check() error {
	where := n.checkURLs
	if n.Embedded() {
		where = n.checkEmbedded
	}
	_, err := n.SyncEvery()
	prefix := streams.CheckPrefix(n.Prefix)
	return errors.Join(where(), err,
		when(prefix != nil, "nats.prefix: %v", prefix),
		when(n.Domain != "" && !isName(n.Domain), "nats.domain %q: use 1 to 64 of A-Z, a-z, 0-9, _ and -", n.Domain),
		n.checkDoors(),
		when(n.login() > 1, "nats: set only one of credentials, user and password, token, nkey_seed_file"),
		when(n.Password != "" && n.User == "", "nats.password: set nats.user, too"),
		when((n.TLS.Cert == "") != (n.TLS.Key == ""), "nats.tls: set cert and key together"),
		when(n.MaxStore < 0, "nats.max_store %d: write a number of bytes, or 0 for three quarters of the free space", n.MaxStore),
		when(!slices.Contains([]int{1, 3, 5}, n.Replicas), "nats.replicas %d: write 1, 3 or 5", n.Replicas),
	)
}

func (n NATS) checkEmbedded() error {
	var listen error
	if n.Listen != "none" {
		listen = checkListen("nats.listen", n.Listen)
	}
	return errors.Join(listen,
		when(n.login() > 0 && n.Operator == "" || n.TLS != (TLS{}), "nats: credentials and tls require nats.url, which is empty"),
		when(n.Domain != "", "nats.domain %q: requires nats.url, which is empty; the embedded server has no domain", n.Domain),
		when(n.Replicas > 1, "nats.replicas %d: the embedded server is a single node; write 1, or set nats.url", n.Replicas),
	)
}

func (n NATS) checkURLs() error {
	var errs []error
	for one := range strings.SplitSeq(n.URL, ",") {
		errs = append(errs, checkNATSURL(strings.TrimSpace(one)))
	}
	return errors.Join(errs...)
}

// login returns the number of login methods that are set.
func (n NATS) login() int {
	ways := 0
	for _, way := range []string{n.Credentials, n.User + n.Password, n.Token, n.NKeySeedFile} {
		if way != "" {
			ways++
		}
	}
	return ways
}

func (e Events) check() error {
	age := e.Retention.MaxAge
	return errors.Join(
		when(age < second && age != -second, "events.retention.max_age %s: write at least 1s, such as 168h, or -1s for unlimited", age),
		when(e.Retention.MaxBytes < 0, "events.retention.max_bytes %d: write a number of bytes, or 0 for unlimited", e.Retention.MaxBytes),
		when(e.DedupWindow < second, "events.dedup_window %s: write at least 1s, such as 1h", e.DedupWindow),
		e.Quota.check(),
		when(age > 0 && e.DedupWindow > age, "events.dedup_window %s: longer than events.retention.max_age %s; write at most that", e.DedupWindow, age),
	)
}

func (q Quota) check() error {
	return errors.Join(
		when(!(q.EventsPerSecond >= 0 && q.EventsPerSecond <= maxQuota), "events.quota.events_per_second %v: write a number up to %d, or 0 for unlimited", q.EventsPerSecond, maxQuota),
		when(q.Burst < 0 || q.Burst > maxQuota, "events.quota.burst %d: write a number up to %d, or 0 for the number per second", q.Burst, maxQuota),
		when(q.BytesPerSecond < 0 || q.BytesPerSecond > maxQuota, "events.quota.bytes_per_second %d: write a number up to %d, or 0 for unlimited", q.BytesPerSecond, maxQuota),
	)
}

func (w Webhooks) check() error {
	errs := []error{
		when(w.MaxBody <= 0, "webhooks.max_body %d: write a number of bytes above 0", w.MaxBody),
		when(w.MaxResponse < minResponse, "webhooks.max_response %d: write at least %d bytes", w.MaxResponse, minResponse),
		when(w.MaxInFlight <= 0, "webhooks.max_in_flight %d: write a number above 0", w.MaxInFlight),
		when(w.SharedAbove < -1, "webhooks.shared_above %d: write a number of subscriptions, or -1 for none", w.SharedAbove),
		when(w.ReplayWindow <= 0, "webhooks.replay_window %s: write a duration above 0, such as 1h", w.ReplayWindow),
	}
	for _, cidr := range w.AllowCIDRs {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			errs = append(errs, invalid("webhooks.allow_cidrs %q: write a network such as 10.1.0.0/16 or fd00::/8", cidr))
		}
	}
	return errors.Join(errs...)
}

func (l Log) check() error {
	var level slog.Level
	return errors.Join(
		when(level.UnmarshalText([]byte(l.Level)) != nil, "log.level %q: write debug, info, warn or error", l.Level),
		when(!slices.Contains([]string{"errors", "slow", "all", "none"}, l.Requests), "log.requests %q: write errors, slow, all or none", l.Requests),
		checkURL("log.endpoint", l.Endpoint),
		when(l.Format != "text" && l.Format != "json", "log.format %q: write text or json", l.Format),
	)
}

func checkListen(name, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return when(err != nil, "%s %q: write host:port such as 127.0.0.1:8080; port 0 picks a free one", name, address)
}

func checkURL(name, address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	bad := err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https")
	return when(bad, "%s %q: write a URL such as https://sluice.example", name, address)
}

func checkNATSURL(address string) error {
	u, err := url.Parse(address)
	bad := err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme)
	return when(bad, "nats.url: write URLs such as nats://127.0.0.1:4222 or tls://nats.example:4222, separated by commas")
}

// when returns an error if bad.
func when(bad bool, format string, args ...any) error { //nolint:revive // not a switch between two behaviours: it keeps lists of checks flat
	if !bad {
		return nil
	}
	return invalid(format, args...)
}

func invalid(format string, args ...any) error {
	return sluice.Errorf(sluice.InvalidRequest, format, args...)
}
