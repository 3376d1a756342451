package e2e_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/seal"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// everything returns all messages of all streams of the server that the test started last, buckets included.
func everything(t *testing.T, js jetstream.JetStream) string {
	t.Helper()
	var all strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	names := js.StreamNames(ctx)
	for name := range names.Name() {
		if _, ours := jsNames(t).Bare(name); !ours {
			continue
		}
		stream, err := js.Stream(ctx, name)
		require.NoError(t, err)
		state := stream.CachedInfo().State
		require.NotZero(t, state.LastSeq+1)
		for seq := state.FirstSeq; seq != 0 && seq <= state.LastSeq; seq++ {
			msg, err := stream.GetMsg(ctx, seq)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				continue
			}
			require.NoError(t, err)
			fmt.Fprintf(&all, "%s %s %v %s\n", name, msg.Subject, msg.Header, msg.Data)
		}
	}
	require.NoError(t, names.Err())
	return all.String()
}

// files returns the content of all files below a directory, by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		all[strings.TrimPrefix(name, dir+"/")] = string(data)
		return err
	}))
	return all
}

// ringIn returns the keys of a server's data directory.
func ringIn(t *testing.T, dir string) (*seal.Ring, []byte) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, datadir.SecretsKeyFile))
	require.NoError(t, err)
	keys, err := seal.ParseFile(string(content))
	require.NoError(t, err)
	ring, err := seal.New(keys...)
	require.NoError(t, err)
	return ring, keys[0]
}

// seeds returns the seeds of the server's signing keys, which it never shows.
func seeds(t *testing.T, s *running) map[string]string {
	t.Helper()
	ring, raw := ringIn(t, s.dir)
	store, err := natsstore.Connect(t.Context(), natsstore.Options{Names: jsNames(t), URL: s.at.NATS, User: tester.Name, Password: testerPassword, Sealer: ring})
	require.NoError(t, err)
	defer store.Close()
	keys, err := store.Keys().All(t.Context())
	require.NoError(t, err)
	found := map[string]string{"the key that seals": string(raw)}
	for _, k := range keys {
		found[k.String()] = string(k.Seed)
	}
	return found
}

// A server at its most talkative goes through all that is done with secrets, at an endpoint that says
// back everything that it is told. None is in its log, its answers but those that are for it, NATS or files.
func TestSecret_IsInNoOutput(t *testing.T) {
	t.Parallel()
	const given, plain = "whsec_R2l2ZW4gYnkgdGhlIGNhbGxlciwgMzIgYnl0ZXMgbG9uZyE=", "a plain secret of more than 32 bytes, by hand"
	const token, token2 = "hunter2-of-the-header", "hunter3-of-the-patched-header"
	const inPath, inQuery, inStream = "hunter4-of-the-path", "hunter5-of-the-query", "hunter6-of-a-stream"
	secrets := map[string]string{"the given secret": given, "the plain secret": plain, "the header": token, "the patched header": token2, "the URL's path": inPath, "its query": inQuery, "a stream webhook's path": inStream}
	const ofClient = "hunter7-of-an-oauth-client"
	certificate, key := clientPair(t)
	secrets["a client's secret"], secrets["a client's key"] = ofClient, strings.Split(key, "\n")[1]
	gossip := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		var said strings.Builder
		require.NoError(t, r.Header.Write(&said))
		if r.Path == "/token" {
			why, err := json.Marshal(map[string]string{"error": "invalid_client", "error_description": said.String() + string(r.Body)})
			require.NoError(t, err)
			return hooktest.Answer{Status: http.StatusUnauthorized, Header: map[string]string{"Content-Type": "application/json"}, Body: string(why)}
		}
		return hooktest.Answer{Status: http.StatusInternalServerError, Body: map[string]string{"/given/" + inPath: given, "/plain": plain}[r.Path] + said.String()}
	})
	log, export := &written{}, t.TempDir()
	s := startAt(t, slog.LevelDebug, t.TempDir(), func(c *config.Config) { c.Export.Dir = export }, log)
	var answers strings.Builder
	say := func(line, body string, headers ...string) {
		t.Helper()
		r := s.call(t, line, body, headers...)
		require.Less(t, r.status, 500, "%s: %s", line, r.text)
		line, _, _ = strings.Cut(line, "?")
		fmt.Fprintf(&answers, "%s %d %v %s\n", line, r.status, r.header, r.text)
	}
	s.must(t, http.StatusCreated, "PUT /streams/default/__ds/subscriptions/hook", `{"type":"webhook","pattern":"a/**","webhook":{"url":"`+gossip.URL+`/stream/`+inStream+`"}}`)
	policy := `"policy":{"retry":{"preset":"custom","steps":["100ms"],"max_attempts":2}}`
	made := s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"given","pattern":"/a/**",`+policy+
		`,"endpoint":{"url":"`+gossip.URL+`/given/`+inPath+`?key=`+inQuery+`","secret":"`+given+`","headers":{"x-api-key":"Bearer `+token+`"}}}`)
	require.Equal(t, given, made.field(t, "secret"))
	made = s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"made","pattern":"/a/**",`+policy+`,"endpoint":{"url":"`+gossip.URL+`/made"}}`)
	secrets["the made secret"] = made.field(t, "secret").(string)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"plain","pattern":"/a/**","endpoint":{"url":"`+gossip.URL+`/plain","secret":"`+plain+`"},
		"policy":{"signature":{"scheme":"t-sha256"},"retry":{"preset":"custom","steps":["100ms"],"max_attempts":2}}}`)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"keyed","pattern":"/a/**","endpoint":{"url":"`+gossip.URL+`/keyed"},
		"policy":{"signature":{"scheme":"ed25519"},"retry":{"preset":"custom","steps":["100ms"],"max_attempts":2}}}`)

	inJSON := func(text string) string { return strings.ReplaceAll(text, "\n", `\n`) }
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"client","pattern":"/a/**",`+policy+`,"endpoint":{"url":"`+gossip.URL+`/client","auth":{
		"type":"oauth2","token_url":"`+gossip.URL+`/token","client_id":"app","client_secret":"`+ofClient+`"}}}`)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"tls","pattern":"/b/**","endpoint":{"url":"https://127.0.0.1:1/","tls":{
		"certificate":"`+inJSON(certificate)+`","private_key":"`+inJSON(key)+`"}}}`)
	say("PATCH /v1/subscriptions/client", `{"endpoint":{"url":"https://192.0.2.1/"}}`)
	say("PATCH /v1/subscriptions/tls", `{"endpoint":{"tls":{"certificate":"other"}}}`)
	say("GET /v1/subscriptions/client", "")
	say("GET /v1/subscriptions/tls", "")
	say("POST /v1/subscriptions", `{"id":"short","pattern":"/a/**","endpoint":{"url":"`+gossip.URL+`","secret":"`+given[:20]+`"}}`)
	say("POST /v1/subscriptions", `{"id":"given","pattern":"/b/**","endpoint":{"url":"`+gossip.URL+`","secret":"`+given+`"},"nonsense":1}`)
	say("PUT /v1/subscriptions/given", `{"pattern":"/b/**","endpoint":{"url":"`+gossip.URL+`","secret":"`+given+`"}}`)
	say("PATCH /v1/subscriptions/given", `{"endpoint":{"secret":"`+given+`"}}`)
	s.must(t, http.StatusOK, "PATCH /v1/subscriptions/given", `{"endpoint":{"headers":{"x-api-key":"Bearer `+token2+`"}}}`)
	rotated := s.must(t, http.StatusOK, "POST /v1/subscriptions/made/secret/rotate", `{"overlap":"1h"}`)
	secrets["the rotated secret"] = rotated.field(t, "secret").(string)
	g := s.grant(t, "user:ann", "scope:default", "read")
	secrets["a grant's token"], secrets["its nonce"] = g.token, nonceOf(t, g.token)
	s.must(t, http.StatusOK, "GET /v1/whoami", "", as(g.token)...)
	s.must(t, http.StatusOK, "POST /v1/grants/verify", `{"token":"`+g.token+`"}`)
	secrets["a ticket"], secrets["a bad ticket"] = s.useTickets(t, g, say)
	say("GET /v1/grants", "")
	put(t, s.api, "/a/b", 1, 3)
	for _, id := range []string{"given", "made", "plain", "keyed", "client"} {
		statusOf(t, s.api, id, func(st sluice.Status) bool { return st.DeadLetters == 3 })
	}
	maps.Copy(secrets, seeds(t, s))
	say("POST /v1/keys/rotate", `{"overlap":"1h"}`)
	maps.Copy(secrets, seeds(t, s))
	require.Len(t, secrets, 22, "two keys for webhooks, one for grants, one that stamps, one for woken workers, one for tickets, one that seals")
	say("GET /v1/keys", "")
	say("GET /v1/secrets", "")
	say("GET /v1/settings", "")
	say("GET /.well-known/jwks.json", "")
	for _, id := range []string{"given", "made", "plain", "keyed", "client"} {
		path := "/v1/subscriptions/" + id
		say("POST "+path+"/test", "")
		say("POST "+path+"/replay", `{"from":"-1"}`)
		say("POST "+path+"/dead-letters/redrive", `{"all":true}`)
		statusOf(t, s.api, id, idle)
		for _, more := range []string{"/status", "/deliveries", "/deliveries/a-b-1", "/dead-letters", "/dead-letters/a-b-1", "/events", "/replays"} {
			say("GET "+path+more, "")
		}
	}
	say("GET /v1/audit", "")
	say("GET /metrics", "")
	say("GET /v1/namespaces/default/events", "")
	say("GET /v1/subscriptions/made", "")
	say("GET /v1/subscriptions/plain", "")
	requireNone(t, "an answer", answers.String(), secrets)
	requireNone(t, "an answer that shows headers", s.must(t, http.StatusOK, "GET /v1/subscriptions", "").text, without(without(without(secrets, "the patched header"), "the URL's path"), "its query"))
	require.Contains(t, answers.String(), `"action":"key.rotate"`)
	require.Contains(t, answers.String(), "responded with status 401 invalid_client")
	requireNone(t, "NATS", everything(t, dial(t, s.at.NATS)), secrets)
	s.stop(t)
	require.Contains(t, log.String(), "level=DEBUG")
	require.Contains(t, log.String(), "level=INFO")
	requireNone(t, "the log", log.String(), secrets)
	exported, stored := files(t, export), files(t, s.dir)
	require.Greater(t, len(exported), 3)
	require.Greater(t, len(stored), 10)
	for name, content := range exported {
		requireNone(t, name, content, secrets)
	}
	for name, content := range stored {
		if name == datadir.SecretsKeyFile {
			continue
		}
		requireNone(t, name, content, secrets)
	}
	require.Contains(t, stored[datadir.SecretsKeyFile], base64.StdEncoding.EncodeToString([]byte(secrets["the key that seals"])), "a secret is found where it is")
}

func without(secrets map[string]string, name string) map[string]string {
	rest := map[string]string{}
	for n, s := range secrets {
		if n != name {
			rest[n] = s
		}
	}
	return rest
}

// The key that seals is made at the first start, for the owner alone, and stays.
func TestSealKey_IsMadeAtTheFirstStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, nil)
	file := filepath.Join(dir, datadir.SecretsKeyFile)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	before := files(t, dir)[datadir.SecretsKeyFile]
	s.stop(t)
	s = start(t, dir, nil)
	require.Equal(t, before, files(t, dir)[datadir.SecretsKeyFile])
	s.stop(t)

	require.NoError(t, os.Chmod(file, 0o640))
	require.ErrorContains(t, refused(t, dir, nil), "is readable by other users (mode 0640): run chmod 600")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Chmod(file, 0o600))
	require.ErrorContains(t, refused(t, dir, nil), "no key in the file")
	require.NoError(t, os.Remove(file))
	err = refused(t, dir, nil)
	require.ErrorContains(t, err, "this server has none yet")
	require.NoFileExists(t, file, "one that opens nothing is not left behind")
	require.NoError(t, os.WriteFile(file, []byte(before), 0o600))
	start(t, dir, nil)
	require.ErrorContains(t, refused(t, t.TempDir(), func(c *config.Config) { c.Secrets.KeyFile = "/nonexistent/key" }), "openssl rand -base64 32 > /nonexistent/key")
}

// refused returns why a server does not start.
func refused(t *testing.T, dir string, change func(*config.Config)) error {
	t.Helper()
	cfg := config.Default()
	cfg.NATS.Prefix = jsNames(t).Prefix()
	cfg.Data, cfg.HTTP.Listen, cfg.NATS.Listen = dir, "127.0.0.1:0", "127.0.0.1:0"
	if change != nil {
		change(&cfg)
	}
	err := app.Run(t.Context(), cfg, app.Options{Ready: func(datadir.Addresses) { t.Error("it started") }})
	require.Error(t, err)
	return err
}

// A second server on a NATS that makes a key of its own does not start, and is told what to do.
func TestSealKey_IsSharedByServersOfOneNATS(t *testing.T) {
	t.Parallel()
	shared := natstest.Listening(t)
	generated := func(c *config.Config) {
		c.NATS.URL, c.Secrets.KeyFile = shared.ClientURL(), filepath.Join(c.Data, datadir.SecretsKeyFile)
	}
	one, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(one, datadir.SecretsKeyFile), []byte(sharedKey), 0o600))
	first := start(t, one, generated)
	bare := func(c *config.Config) { c.NATS.URL = shared.ClientURL() }
	err := refused(t, dir, bare)
	for _, word := range []string{"sealed with key ", "this server has none yet", "copy secrets.key", "SLUICE_SECRETS_KEY"} {
		require.ErrorContains(t, err, word)
	}
	require.NoFileExists(t, filepath.Join(dir, datadir.SecretsKeyFile))
	require.NotContains(t, err.Error(), sharedKey)

	require.NoError(t, os.WriteFile(filepath.Join(dir, datadir.SecretsKeyFile), []byte(sharedKey), 0o600))
	second := start(t, dir, generated)
	hook := hooktest.New(t, nil)
	sub := subscribe(t, first.api, wish(hook.URL, `"id":"orders"`))
	_, err = second.api.Subscription(t.Context(), "orders")
	require.NoError(t, err)
	put(t, second.api, "/a", 1, 1)
	receive(t, &webhook.Receiver{Secrets: []string{sub.Endpoint.Secret}}, hook.Wait(1)[0])
}

// launch starts a server in a process of its own, which may not get ready, on a NATS elsewhere.
func launch(t *testing.T, url, dir, key string) (*child, *written) {
	t.Helper()
	c, said := &child{dir: dir, http: "127.0.0.1:0"}, &written{}
	c.proc = exec.Command(childProgram(t), "-test.run=^$") //nolint:noctx // ourselves, killed by the test
	c.proc.Env = append(os.Environ(), endsAtOnce, serveEnv+"="+dir, "SLUICE_HTTP="+c.http, serveNATSEnv+"="+url, serveLeaseEnv+"=3s", serveKeyEnv+"="+key)
	c.proc.Stderr = io.MultiWriter(said, os.Stderr)
	require.NoError(t, c.proc.Start())
	t.Cleanup(func() { _ = c.proc.Process.Kill() }) // it may have been already
	return c, said
}

// The key that seals is replaced, and the server is killed while it seals. It goes on at the next start;
// the new key alone is refused until then, and enough afterwards. Everything signs as before.
func TestSealKey_ReplacementSurvivesAKill(t *testing.T) {
	t.Parallel()
	const subs, sealed, first, second = 50, 10, "Rmlyc3QgbW9ybmluZyBvZiB0aGUgd2hvbGUgeWVhciE=", "U2Vjb25kIG1vcm5pbmcgb2YgdGhlIHdob2xlIHllYXI="
	shared := natstest.Listening(t)
	dir := t.TempDir()
	withKey := func(key string) func(*config.Config) {
		return func(c *config.Config) { c.NATS.URL, c.Secrets.Key = shared.ClientURL(), key }
	}
	hook := hooktest.New(t, nil)
	s := start(t, dir, withKey(first))
	hmac := subscribe(t, s.api, wish(hook.URL+"/hmac", `"id":"hmac"`)).Endpoint.Secret
	subscribe(t, s.api, wish(hook.URL+"/keyed", `"id":"keyed"`, `"policy":{"signature":{"scheme":"ed25519"}}`))
	for i := range subs {
		subscribe(t, s.api, fmt.Sprintf(`{"id":"s%d","pattern":"/none/%d","enabled":false,"endpoint":{"url":%q}}`, i, i, hook.URL))
	}
	public := s.must(t, http.StatusOK, "GET /.well-known/jwks.json", "").text
	s.stop(t)

	var puts atomic.Int64
	wire := faulttest.OpenWire(t, hostOf(t, shared.ClientURL()), func(said []byte) bool {
		if puts.Load() >= sealed { // in the middle, however slow the test is
			return false
		}
		if faulttest.KindOf(said, []faulttest.Kind{{"seal", jsNames(t).KeySubject("subscriptions", ""), ""}}) != "" {
			puts.Add(1)
		}
		return true
	})
	defer wire.Close()
	cut, _ := launch(t, through(t, wire.Addr(), shared.ClientURL()), dir, second+","+first)
	eventually(t, func() bool { return puts.Load() >= sealed }, "it seals")
	cut.kill(t)
	old, err := seal.ParseList(first)
	require.NoError(t, err)
	text := everything(t, dial(t, shared.ClientURL()))
	left := strings.Count(text, `"enc1.`+seal.ID(old[0]))
	require.Positive(t, left, "it was killed while it sealed")
	t.Logf("killed with %d of %d texts left to seal", left, subs+5)

	alone, said := launch(t, shared.ClientURL(), dir, second)
	require.Error(t, alone.proc.Wait())
	require.Contains(t, said.String(), "sealed with key "+seal.ID(old[0]))
	require.NotContains(t, said.String(), second)
	s = start(t, dir, withKey(second+","+first))
	require.Contains(t, s.must(t, http.StatusOK, "GET /v1/secrets", "").text, `"id":"`+seal.ID(old[0])+`","known":true,"seals":false,"records":0`)
	s.stop(t)
	s = start(t, dir, withKey(second))
	require.NotContains(t, everything(t, dial(t, shared.ClientURL())), "enc1."+seal.ID(old[0]))
	require.JSONEq(t, public, s.must(t, http.StatusOK, "GET /.well-known/jwks.json", "").text)
	put(t, s.api, "/a", 1, 1)
	keys, err := webhook.ParseKeys([]byte(public))
	require.NoError(t, err)
	for _, r := range hook.Wait(2) {
		receiver := &webhook.Receiver{Secrets: []string{hmac}}
		if r.Path == "/keyed" {
			receiver = &webhook.Receiver{Scheme: webhook.Ed25519, Keys: keys}
		}
		receive(t, receiver, r)
	}
}

// A server whose neighbour seals with a key that it does not have yet holds the subscription back: what is
// parked stays parked, and is delivered when it has the key.
func TestSealKey_ServerWithoutTheNewOneLosesNothing(t *testing.T) {
	t.Parallel()
	const first, second = "Rmlyc3QgbW9ybmluZyBvZiB0aGUgd2hvbGUgeWVhciE=", "U2Vjb25kIG1vcm5pbmcgb2YgdGhlIHdob2xlIHllYXI="
	shared := natstest.Listening(t)
	dir := t.TempDir()
	withKey := func(key string) func(*config.Config) {
		return func(c *config.Config) { c.NATS.URL, c.Secrets.Key = shared.ClientURL(), key }
	}
	down := refusing(numbered("/a", 1))
	hook := hooktest.New(t, status(http.StatusServiceUnavailable, down.refuses))
	s := startLogging(t, dir, withKey(first), io.Discard)
	secret := subscribe(t, s.api, wish(hook.URL, `"id":"orders"`, `"policy":{"retry":{"preset":"custom","steps":["1s"],"max_attempts":100}}`)).Endpoint.Secret
	put(t, s.api, "/a", 1, 3)
	statusOf(t, s.api, "orders", func(st sluice.Status) bool { return st.Parked == 1 && st.Backlog == 0 })

	keys, err := seal.ParseList(second + "," + first)
	require.NoError(t, err)
	ring, err := seal.New(keys...)
	require.NoError(t, err)
	neighbour := storetest.Connect(t, natsstore.Options{Names: jsNames(t), URL: shared.ClientURL(), Sealer: ring})
	require.NoError(t, neighbour.Provision(t.Context()))
	require.Equal(t, http.StatusServiceUnavailable, s.call(t, "GET /v1/subscriptions/orders", "").status)
	require.Contains(t, s.must(t, http.StatusOK, "GET /v1/subscriptions", "").text, `"orders"`)
	s.served(t, "orders", nil)
	require.Len(t, parkedLanes(t, neighbour, "orders"), 1, "the parked lane is still there")
	s.stop(t)

	down.accept()
	s = start(t, dir, withKey(second+","+first))
	statusOf(t, s.api, "orders", idle)
	taken := map[string]bool{}
	for _, r := range hook.Requests() {
		taken[receive(t, &webhook.Receiver{Secrets: []string{secret}}, r).ID] = true
	}
	require.Len(t, taken, 3)
}
