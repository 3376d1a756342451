package e2e_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// The callers. Those without a token that counts:
//
//	nobody, forged, expired, revoked, replayed
//
// and those with one for the namespace acme, on whose access list they are and for whose label they
// are cleared unless it is said:
//
//	reader, writer     one verb for all of it
//	owner              subscribe; made the subscription
//	subscriber         subscribe; did not
//	narrowed           a part of a reader's and subscriber's grant: /a/** only
//	seer               read, but the list says existence
//	unlisted           read, but not on the list
//	uncleared          read, but not cleared
//	stranger           admin of another namespace
//	admin              admin of acme
//	sysadmin, root     admin of everything, and root
func unknownCallers() []string { return strings.Fields("nobody forged expired revoked replayed") }

func knownCallers() []string {
	return strings.Fields("reader writer owner subscriber narrowed seer unlisted uncleared stranger admin sysadmin root")
}

// row says which status each caller gets: "200 root admin; 404 *", where * is all others that are known. Those
// that are not get 401 from everything under /v1.
type row string

// Rows that several routes share.
const (
	forEverybody    row = "200 *"
	forAdmins       row = "200 admin sysadmin root; 404 unlisted uncleared stranger; 403 *"
	forSysadmins    row = "200 sysadmin root; 403 *"
	forReaders      row = "200 reader narrowed seer admin sysadmin root; 404 unlisted uncleared stranger; 403 *"
	forWriters      row = "200 writer admin sysadmin root; 404 unlisted uncleared stranger; 403 *"
	forOwner        row = "200 owner admin sysadmin root; 404 *"
	forWholeReaders row = "200 reader admin sysadmin root; 404 unlisted uncleared stranger; 403 *"
	forReadersThere row = "200 reader narrowed admin sysadmin root; 404 unlisted uncleared stranger; 403 *"
	whoeverKnows    row = "404 unlisted uncleared stranger; 200 *"
	withoutAToken   row = "200 * nobody forged expired revoked replayed"
)

// asked is a request to a route: what follows the method and the path, with placeholders filled in.
type asked struct {
	row  row
	body string
	ok   int // what is meant by 200

	query string // behind the path
}

// matrix is who × every route → status (issue "trust"). A route that is not here fails the test.
func matrix() map[string]asked {
	const stream, ds = "/streams/{ns}/{path}", "/streams/{ns}/__ds"
	const events, one, acme = "/v1/namespaces/{ns}/events", "/v1/subscriptions/{id}", "/v1/namespaces/{ns}"
	return map[string]asked{
		"GET /livez":                 {row: withoutAToken},
		"HEAD /livez":                {row: withoutAToken},
		"GET /healthz":               {row: withoutAToken},
		"HEAD /healthz":              {row: withoutAToken},
		"GET /readyz":                {row: withoutAToken},
		"HEAD /readyz":               {row: withoutAToken},
		"GET /metrics":               {row: withoutAToken}, // from this machine
		"GET /openapi.yaml":          {row: withoutAToken},
		"GET /openapi.json":          {row: withoutAToken},
		"GET /":                      {row: withoutAToken},
		"GET /docs":                  {row: withoutAToken},
		"GET /docs/style.css":        {row: withoutAToken},
		"GET /.well-known/jwks.json": {row: withoutAToken},

		"POST /callback/{ns}/{consumer}": {row: "410 * forged expired revoked replayed; 401 nobody", body: `{"epoch":1}`}, // what counts is the token of a notice

		"OPTIONS " + stream: {row: withoutAToken, ok: 204}, // a browser asks it before it shows a token
		"PUT " + stream:     {row: forWriters, body: `1`},
		"POST " + stream:    {row: forWriters, body: `1`, ok: 204},
		"GET " + stream:     {row: forReadersThere},
		"HEAD " + stream:    {row: forReadersThere},
		"DELETE " + stream:  {row: forWriters, ok: 204},

		"GET " + ds + "/jwks.json":                            {row: withoutAToken},
		"PUT " + ds + "/subscriptions/{id}":                   {row: "200 owner admin sysadmin root; 409 subscriber; 404 unlisted uncleared stranger; 403 *", body: streamSubs},
		"GET " + ds + "/subscriptions/{id}":                   {row: forOwner},
		"DELETE " + ds + "/subscriptions/{id}":                {row: forOwner, ok: 204},
		"POST " + ds + "/subscriptions/{id}/streams":          {row: forOwner, body: `{"streams":["a/named"]}`, ok: 204},
		"DELETE " + ds + "/subscriptions/{id}/streams/{path}": {row: forOwner, ok: 204},
		"POST " + ds + "/subscriptions/{id}/claim":            {row: forOwner, body: `{"worker":"w"}`, ok: 400}, // it is a webhook's
		"POST " + ds + "/subscriptions/{id}/callback":         {row: "401 *"},                                   // they have tokens of wakes
		"POST " + ds + "/subscriptions/{id}/ack":              {row: "401 *"},
		"POST " + ds + "/subscriptions/{id}/release":          {row: "401 *"},

		"GET /v1/capabilities":                   {row: forEverybody},
		"GET /v1/whoami":                         {row: forEverybody},
		"GET /v1/storage":                        {row: forSysadmins},
		"GET /v1/debug/pprof/{profile}":          {row: forSysadmins, ok: 404},
		"POST /v1/storage/verify":                {row: forSysadmins, ok: 202},
		"DELETE /v1/storage/damage":              {row: forSysadmins, ok: 204},
		"GET /v1/audit":                          {row: forSysadmins},
		"GET /v1/modules":                        {row: forSysadmins},
		"GET /v1/modules/{module}":               {row: forSysadmins, ok: 404},
		"POST /v1/modules/{module}/approve":      {row: forSysadmins, body: `{"digest":"sha256:00"}`, ok: 404},
		"POST /v1/modules/{module}/disable":      {row: forSysadmins, ok: 404},
		"DELETE /v1/modules/{module}":            {row: forSysadmins, ok: 404},
		"GET /v1/keys":                           {row: forSysadmins},
		"GET /v1/settings":                       {row: forSysadmins},
		"POST /v1/keys/rotate":                   {row: forSysadmins, body: `{"overlap":"0s"}`, ok: 201},
		"GET /v1/secrets":                        {row: forSysadmins},
		"GET /v1/producers/unsafe":               {row: forSysadmins},
		"DELETE /v1/producers/unsafe/{producer}": {row: forSysadmins, ok: 404}, // none is

		"GET /v1/namespaces":                            {row: forEverybody},
		"PUT " + acme:                                   {row: forAdmins, body: `{"description":"x"}`},
		"GET " + acme:                                   {row: whoeverKnows},
		"DELETE /v1/namespaces/{ns}":                    {row: forAdmins, ok: 204},
		"GET /v1/namespaces/{ns}/event-types":           {row: whoeverKnows},
		"GET /v1/namespaces/{ns}/event-types/{type}":    {row: whoeverKnows},
		"PUT /v1/namespaces/{ns}/event-types/{type}":    {row: forAdmins, body: `{"description":"x"}`},
		"DELETE /v1/namespaces/{ns}/event-types/{type}": {row: forAdmins, ok: 204},
		"POST " + events:                                {row: "200 writer admin sysadmin root; 404 unlisted uncleared stranger; 403 *", body: `{"path":"/a/b","type":"t","data":1}`, ok: 201},
		"GET " + events:                                 {row: forReaders},
		"GET " + acme + "/observe":                      {row: forReaders},
		"GET " + events + "/{event}":                    {row: "200 reader narrowed admin sysadmin root; 404 seer unlisted uncleared stranger; 403 *"},
		"GET " + acme + "/attempts":                     {row: "200 subscriber owner admin sysadmin root; 404 unlisted uncleared stranger; 403 *"},
		"GET " + events + "/{event}/deliveries":         {row: "200 reader narrowed admin sysadmin root; 404 seer unlisted uncleared stranger; 403 *"},
		"GET " + acme + "/feed":                         {row: forReaders, query: "?buffer=0", ok: 400}, // or it would not end
		"OPTIONS " + acme + "/feed":                     {row: withoutAToken, ok: 204},
		"POST " + acme + "/feed/tickets":                {row: forReaders, ok: 201},
		"OPTIONS " + acme + "/feed/tickets":             {row: withoutAToken, ok: 204},
		"GET " + acme + "/state":                        {row: forReaders},
		"GET " + acme + "/state/{path}":                 {row: "200 reader narrowed admin sysadmin root; 404 seer unlisted uncleared stranger; 403 *"},
		"GET " + acme + "/watches":                      {row: whoeverKnows},
		"PUT " + acme + "/watches/{id}":                 {row: "200 admin sysadmin root; 404 unlisted uncleared stranger; 403 *", body: `{"pattern":"/a/**","filter":{"types":["never"]},"action":{"path":"/w","type":"t"}}`}, // it is to be read, and published
		"POST " + acme + "/watches/test":                {row: forReadersThere, body: `{"pattern":"/a/**"}`},
		"GET " + acme + "/watches/{id}":                 {row: "200 admin sysadmin root; 404 *"},
		"DELETE " + acme + "/watches/{id}":              {row: "200 admin sysadmin root; 404 *", ok: 204},
		"GET " + acme + "/scheduled":                    {row: forWriters},
		"GET " + acme + "/scheduled/{event}":            {row: forWriters, ok: 404}, // its time has passed
		"DELETE " + acme + "/scheduled/{event}":         {row: forWriters, ok: 404},
		"GET " + acme + "/appointments":                 {row: forWriters},
		"PUT " + acme + "/appointments/{id}":            {row: forWriters, body: `{"at":"{deadline}","action":{"path":"/a/b","type":"t"}}`},
		"GET " + acme + "/appointments/{id}":            {row: forWriters},
		"DELETE " + acme + "/appointments/{id}":         {row: forWriters, ok: 204},
		"GET /v1/namespaces/{ns}/acl":                   {row: forAdmins},
		"GET /v1/namespaces/{ns}/acl/{principal}":       {row: forAdmins},
		"PUT /v1/namespaces/{ns}/acl/{principal}":       {row: forAdmins, body: `{"tier":"read"}`},
		"DELETE /v1/namespaces/{ns}/acl/{principal}":    {row: forAdmins, ok: 204},
		"POST /v1/namespaces/{ns}/tombstones":           {row: forAdmins, body: `{"path":"/a/none"}`, ok: 201},
		"GET /v1/namespaces/{ns}/tombstones":            {row: forAdmins},
		"GET " + acme + "/items":                        {row: whoeverKnows}, // each sees what it may read
		"GET " + acme + "/items/feed":                   {row: forWholeReaders, query: "?subscription=none", ok: 404},
		"GET " + acme + "/items/stream":                 {row: forWholeReaders, query: "?subscription=none", ok: 404},
		"HEAD " + acme + "/items/stream":                {row: forWholeReaders, query: "?subscription=none", ok: 404},
		"GET " + acme + "/topics":                       {row: forReaders},
		"GET " + acme + "/export":                       {row: forAdmins},
		"POST " + acme + "/import":                      {row: forAdmins, body: `{}`, ok: 422}, // it is no bundle
		"GET " + acme + "/bundle-keys":                  {row: whoeverKnows},
		"GET " + acme + "/trusted-keys":                 {row: forAdmins},
		"PUT " + acme + "/trusted-keys/{kid}":           {row: forAdmins, body: `{"jwk":{},"source":"s"}`, ok: 400}, // it is no key
		"DELETE " + acme + "/trusted-keys/{kid}":        {row: forAdmins, ok: 404},

		"GET " + acme + "/enrichment":           {row: whoeverKnows, ok: 404}, // there is none
		"PUT " + acme + "/enrichment":           {row: forAdmins, body: `{}`, ok: 400},
		"DELETE " + acme + "/enrichment":        {row: forAdmins, ok: 404},
		"POST " + acme + "/jobs/claim":          {row: forAdmins, body: `{"worker":"w"}`, ok: 404}, // a worker reads and subscribes
		"GET " + acme + "/jobs":                 {row: forWholeReaders, ok: 404},
		"GET " + acme + "/jobs/{job}":           {row: forWholeReaders, ok: 404},
		"POST " + acme + "/jobs/{job}/renew":    {row: forAdmins, body: `{"token":"t"}`, ok: 404},
		"POST " + acme + "/jobs/{job}/complete": {row: forAdmins, body: `{"token":"t","embedding":[1]}`, ok: 404},
		"POST " + acme + "/jobs/{job}/fail":     {row: forAdmins, body: `{"token":"t","error":"e"}`, ok: 404},
		"POST " + acme + "/jobs/{job}/retry":    {row: forAdmins, ok: 404},
		"POST " + acme + "/search":              {row: forWholeReaders, body: `{"vector":[1]}`, ok: 404},
		"GET " + acme + "/comparisons":          {row: forWholeReaders, ok: 404},
		"GET " + acme + "/comparisons/{entry}":  {row: forWholeReaders, ok: 404},

		"POST /v1/grants":                   {row: "200 reader narrowed seer unlisted uncleared sysadmin root admin; 403 *", body: `{"principal":"user:new","verbs":["read"],"object":"path:{ns}/a/**","expires_at":"{deadline}"}`, ok: 201},
		"GET /v1/grants":                    {row: forEverybody},
		"POST /v1/grants/verify":            {row: forEverybody, body: `{"token":"none"}`},
		"GET /v1/grants/{grant}":            {row: "200 reader admin sysadmin root; 404 *"}, // the reader's
		"POST /v1/grants/{grant}/renew":     {row: "200 root; 403 admin sysadmin; 404 *"},   // its token is the reader's
		"POST /v1/grants/{grant}/revoke":    {row: "200 reader admin sysadmin root; 404 *"},
		"POST /v1/portal/links":             {row: "200 admin sysadmin root; 403 *", body: `{"principal":"user:new","object":"path:{ns}/a/**"}`, ok: 201},
		"POST /v1/portal/sessions":          {row: "401 *", body: `{"code":"plk_none"}`}, // the code is what counts
		"GET /v1/principals":                {row: forSysadmins},
		"GET /v1/principals/{principal}":    {row: forSysadmins},
		"PUT /v1/principals/{principal}":    {row: forSysadmins, body: `{"clearance":{"level":"INTERNAL"}}`},
		"DELETE /v1/principals/{principal}": {row: forSysadmins, ok: 204},

		"POST " + acme + "/subscriptions":             {row: "200 owner subscriber admin sysadmin root; 404 unlisted uncleared stranger; 403 *", body: `{"pattern":"/b/c","endpoint":{"url":"{hook}"}}`, ok: 201},
		"GET " + acme + "/subscriptions":              {row: forEverybody},
		"POST /v1/subscriptions":                      {row: "200 owner subscriber admin sysadmin root; 404 unlisted uncleared stranger; 403 *", body: `{"namespace":"{ns}","pattern":"/b","endpoint":{"url":"{hook}"}}`, ok: 201},
		"POST /v1/subscriptions/batch":                {row: forEverybody, body: `[{"namespace":"{ns}","pattern":"/b","endpoint":{"url":"{hook}"}}]`}, // each item has a status of its own
		"GET /v1/subscriptions":                       {row: forEverybody},
		"GET /v1/health/subscriptions":                {row: forEverybody},      // each sees what it manages
		"GET /v1/overview":                            {row: forEverybody},      // each sees what it manages
		"GET /v1/problems":                            {row: forEverybody},      // each sees what it manages
		"GET /v1/problems/{problem}":                  {row: forOwner, ok: 404}, // there is none
		"PATCH /v1/problems/{problem}":                {row: forOwner, ok: 404, body: `{"state":"ignored"}`},
		"PUT " + one:                                  {row: "200 owner sysadmin admin root subscriber; 404 unlisted uncleared stranger; 403 *", body: `{"namespace":"{ns}","pattern":"/b","endpoint":{"url":"{hook}"}}`, ok: 409},
		"GET " + one:                                  {row: forOwner},
		"PATCH " + one:                                {row: "200 admin sysadmin root; 403 owner; 404 *", body: `{"description":"x"}`},
		"DELETE " + one:                               {row: forOwner, ok: 204},
		"POST " + one + "/pause":                      {row: forOwner},
		"POST " + one + "/resume":                     {row: forOwner},
		"POST " + one + "/secret/rotate":              {row: forOwner},
		"POST " + one + "/test":                       {row: forOwner},
		"POST " + one + "/match":                      {row: forOwner, body: `{}`},
		"POST " + one + "/probe":                      {row: forOwner, ok: 202},
		"POST " + one + "/retry":                      {row: forOwner, ok: 202},
		"POST " + one + "/seek":                       {row: forOwner, body: `{"to":"now"}`},
		"POST " + one + "/replay":                     {row: forOwner, body: `{"dry_run":true}`},
		"GET " + one + "/replays":                     {row: forOwner},
		"GET " + one + "/replays/{replay}":            {row: forOwner, ok: 404}, // there is none
		"POST " + one + "/replays/{replay}/cancel":    {row: forOwner, ok: 404},
		"GET " + one + "/status":                      {row: forOwner},
		"GET " + one + "/statistics":                  {row: forOwner},
		"POST " + one + "/sync":                       {row: "404 *"}, // it is no mirror
		"POST " + one + "/suspend":                    {row: "404 *"},
		"PUT " + one + "/credential":                  {row: "404 *", body: `{"credential":"x"}`},
		"GET " + one + "/consumers":                   {row: forOwner, ok: 422}, // it is of mode push
		"GET " + one + "/consumers/{consumer}":        {row: forOwner, ok: 422},
		"GET " + one + "/deliveries":                  {row: forOwner},
		"GET " + one + "/deliveries/{event}":          {row: forOwner},
		"POST " + one + "/deliveries/{event}/retry":   {row: forOwner, ok: 202},
		"POST " + one + "/deliveries/{event}/discard": {row: forOwner, ok: 409},
		"GET " + one + "/events":                      {row: forOwner},
		"GET " + one + "/dead-letters":                {row: forOwner},
		"DELETE " + one + "/dead-letters":             {row: forOwner, ok: 400}, // all=true is missing
		"POST " + one + "/dead-letters/redrive":       {row: forOwner, body: `{"all":true}`, ok: 409},
		"GET " + one + "/dead-letters/{event}":        {row: forOwner, ok: 404},
		"DELETE " + one + "/dead-letters/{event}":     {row: forOwner, ok: 404},
	}
}

// streamSubs is an existing subscription of the Durable Streams protocol.
const streamSubs = `{"type":"webhook","pattern":"a/*","webhook":{"url":"{hook}"}}`

// statuses returns the row as status by caller.
func (a asked) statuses(t *testing.T, api bool) map[string]int {
	t.Helper()
	want, others := map[string]int{}, 0
	for _, who := range unknownCallers() {
		want[who] = http.StatusUnauthorized
	}
	for part := range strings.SplitSeq(string(a.row), ";") {
		var status int
		_, err := fmt.Sscan(part, &status)
		require.NoError(t, err, part)
		if status == http.StatusOK && a.ok != 0 {
			status = a.ok
		}
		for _, who := range strings.Fields(part)[1:] {
			if who == "*" {
				others = status
				continue
			}
			want[who] = status
		}
	}
	for _, who := range knownCallers() {
		if _, said := want[who]; !said {
			want[who] = others
		}
	}
	require.Len(t, want, len(knownCallers())+len(unknownCallers()), "%s names an unknown caller", a.row)
	require.True(t, api || want["nobody"] == http.StatusOK)
	return want
}

// routesOf returns all routes of a server, which its document has: another test compares that with the table.
func routesOf(t *testing.T, s *running) (all []string) {
	t.Helper()
	var document struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(s.must(t, http.StatusOK, "GET /openapi.yaml", "").text), &document))
	for path, item := range document.Paths {
		for method := range item {
			if method != "parameters" {
				all = append(all, strings.ToUpper(method)+" "+path)
			}
		}
	}
	all = append(all, "GET /metrics", "GET /openapi.yaml", "GET /openapi.json", "GET /docs", "GET /docs/style.css") // which it does not describe
	slices.Sort(all)
	return all
}

// cast is the callers' tokens, and what the requests are about.
type cast struct {
	*running

	tokens map[string]string

	ns, id, event, grantID string
	hook                   string
}

// gather makes a namespace with an access list, a label, an event and a subscription, and all who want something of it.
func gather(t *testing.T, s *running, ns, hook string) cast {
	t.Helper()
	c := cast{running: s, tokens: map[string]string{"root": s.token, "nobody": ""}, ns: ns, id: ns + "-sub", hook: hook}
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/"+ns, `{"label":{"level":"INTERNAL"}}`)
	s.call(t, "PUT /v1/namespaces/"+ns+"/event-types/t", `{"description":"x"}`)
	tiers := map[string]string{
		"admin": "admin", "sysadmin": "admin", "reader": "read", "writer": "write", "owner": "read", "subscriber": "read",
		"narrowed": "read", "seer": "existence", "uncleared": "read", "x": "read",
	}
	for who, tier := range tiers {
		s.must(t, http.StatusOK, "PUT /v1/namespaces/"+ns+"/acl/user:"+who, `{"tier":"`+tier+`"}`)
	}
	scope := "scope:" + ns
	var reader granted
	for who, what := range map[string][2]string{
		"admin": {scope, "admin"}, "sysadmin": {"*", "admin"}, "reader": {scope, "read"}, "writer": {scope, "publish"}, "owner": {scope, "subscribe"},
		"subscriber": {scope, "subscribe"}, "seer": {scope, "read"}, "unlisted": {scope, "read"}, "uncleared": {scope, "read"}, "stranger": {"scope:elsewhere", "admin"},
		"revoked": {scope, "admin"}, "replayed": {scope, "admin"},
	} {
		g := s.grant(t, "user:"+who, what[0], what[1])
		c.tokens[who] = g.token
		switch who {
		case "reader":
			reader = g
		case "revoked":
			s.must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/revoke", "")
		case "replayed":
			s.must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/renew", "")
		}
	}
	c.grantID = reader.id
	whole := s.grant(t, "user:narrowed", scope, "read subscribe")
	c.tokens["narrowed"] = s.grant(t, "user:narrowed", "path:"+ns+"/a/**", "read", whole.token).token
	c.tokens["forged"] = forged(t)
	event := s.must(t, http.StatusCreated, "POST /v1/namespaces/"+ns+"/events", `{"path":"/a/b","type":"t","data":1}`).field(t, "events").([]any)[0].(map[string]any)["id"]
	c.event = event.(string)
	s.must(t, http.StatusCreated, "PUT /v1/subscriptions/"+c.id, `{"namespace":"`+ns+`","pattern":"/**","endpoint":{"url":"`+hook+`"}}`, as(c.tokens["owner"])...)
	s.must(t, http.StatusCreated, c.fill("PUT /v1/namespaces/{ns}/watches/{id}"), `{"pattern":"/a/**","filter":{"types":["never"]},"action":{"path":"/w","type":"t"}}`)
	s.must(t, http.StatusCreated, c.fill("PUT /v1/namespaces/{ns}/appointments/{id}"), c.fill(`{"at":"{deadline}","action":{"path":"/a/b","type":"t"}}`))
	s.must(t, http.StatusCreated, c.fill("PUT /streams/{ns}/__ds/subscriptions/{id}"), c.fill(streamSubs), as(c.tokens["owner"])...)
	return c
}

// outdated returns a token of an admin of everything whose time is over.
func outdated(t *testing.T, s *running) string {
	t.Helper()
	body := fmt.Sprintf(`{"principal":"user:expired","object":"*","verbs":["admin"],"expires_at":%q}`, time.Now().Add(8*time.Second).UTC().Format(time.RFC3339))
	token, _ := s.must(t, http.StatusCreated, "POST /v1/grants", body).field(t, "token").(string)
	eventually(t, func() bool {
		r := s.call(t, "GET /v1/whoami", "", as(token)...)
		return r.status == http.StatusUnauthorized && r.field(t, "error.details.reason") == "expired"
	}, "the grant expires")
	return token
}

// forged returns a token of an admin of everything that another key than the server's signed.
func forged(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	token, err := authz.Sign(&sluice.Grant{
		ID: uuid.NewString(), Principal: "user:eve", Verbs: []sluice.Verb{"admin"}, IssuedBy: "root", IssuedAt: time.Now(), ExpiresAt: deadline,
	}, strings.Repeat("00", 32), "k", key)
	require.NoError(t, err)
	return token
}

// fill fills in the placeholders of a text.
func (c cast) fill(text string) string {
	return strings.NewReplacer("{ns}", c.ns, "{id}", c.id, "{event}", url.PathEscape(c.event), "{grant}", c.grantID, "{principal}", "user:x", "{type}", "t",
		"{producer}", "nobody", "{module}", "none", "{path}", "a/b", "{consumer}", "nobody:%2Fa%2Fb", "{replay}", uuid.NewString(), "{hook}", c.hook, "{deadline}", deadline.Format(time.RFC3339)).Replace(text)
}

// changes reports whether a request may change what others ask about, so that every caller needs things of its own.
func changes(line string) bool {
	return strings.HasPrefix(line, "DELETE /streams/") || strings.HasPrefix(line, "DELETE /v1/namespaces/{ns}") || strings.HasPrefix(line, "DELETE /v1/principals") || line == "DELETE /v1/subscriptions/{id}" || line == "DELETE /streams/{ns}/__ds/subscriptions/{id}" ||
		strings.HasPrefix(line, "POST /v1/grants/{grant}/")
}

func TestAuth_MatrixOfEveryRoute(t *testing.T) {
	t.Parallel()
	const groups = 3
	for group := range groups {
		t.Run(fmt.Sprintf("%d of %d", group+1, groups), func(t *testing.T) {
			t.Parallel()
			askEveryRoute(t, func(route int) bool { return route%groups == group })
		})
	}
}

// askEveryRoute asks those routes as every caller that in chooses by their number. Each route has a row, and each row a route.
func askEveryRoute(t *testing.T, in func(route int) bool) {
	t.Helper()
	s := start(t, t.TempDir(), func(c *config.Config) { c.HTTP.AuthFailures.Burst, c.HTTP.Pprof = 0, true })
	hook := hooktest.New(t, nil)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/elsewhere", `{}`)
	for _, who := range append(knownCallers(), "x") {
		if who != "uncleared" && who != "root" {
			s.must(t, http.StatusOK, "PUT /v1/principals/user:"+who, `{"clearance":{"level":"INTERNAL"}}`)
		}
	}
	table := matrix()
	over := outdated(t, s)
	shared := gather(t, s, "acme", hook.URL)
	for i, line := range routesOf(t, s) {
		want, ok := table[line]
		require.True(t, ok, "the route %s has no row: who may ask it?", line)
		delete(table, line)
		if in(i) {
			shared = shared.askEverybody(t, i, line, want, over)
		}
	}
	require.Empty(t, slices.Collect(maps.Keys(table)), "rows of routes that there are not")
}

// askEverybody asks a route as every caller, and returns what the next route is asked about. A caller that may change
// something has something of its own.
func (c cast) askEverybody(t *testing.T, route int, line string, want asked, over string) (next cast) {
	t.Helper()
	statuses := want.statuses(t, strings.Contains(line, " /v1") || strings.Contains(line, " /callback/") || strings.Contains(line, " /streams/"))
	for i, who := range append(unknownCallers(), knownCallers()...) {
		own := c
		if changes(line) && statuses[who] < 300 && who != "root" {
			own = gather(t, c.running, fmt.Sprintf("n%d-%d", route, i), c.hook)
		}
		own.tokens["expired"] = over
		own.prepare(t, line)
		own.ask(t, line+want.query, who, want.body, statuses[who])
	}
	if changes(line) {
		return gather(t, c.running, fmt.Sprintf("again%d", route), c.hook)
	}
	return c
}

// prepare puts back what others may have deleted before.
func (c cast) prepare(t *testing.T, line string) {
	t.Helper()
	if strings.HasSuffix(line, "/v1/principals/{principal}") {
		c.must(t, http.StatusOK, "PUT /v1/principals/user:x", `{"clearance":{"level":"INTERNAL"}}`)
	}
	if line == "DELETE /v1/namespaces/{ns}/event-types/{type}" {
		c.call(t, "PUT "+c.fill("/v1/namespaces/{ns}/event-types/{type}"), `{"description":"x"}`)
	}
}

// ask makes a request as a caller. A concealed name is not in the answer (C14).
func (c cast) ask(t *testing.T, line, who, body string, status int) {
	t.Helper()
	got := c.call(t, c.fill(line), c.fill(body), "Authorization", strings.TrimSpace("Bearer "+c.tokens[who]))
	require.Equal(t, status, got.status, "%s as %s: %s", line, who, got.text)
	if got.status != http.StatusNotFound || who == "root" || !json.Valid([]byte(got.text)) {
		return
	}
	for _, name := range []string{c.ns, c.id, c.event} {
		require.NotContains(t, got.field(t, "error.message"), name, "%s as %s", line, who)
	}
}
