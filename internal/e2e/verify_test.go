package e2e_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
)

// Issue 19, part 1: who can do what, and why.
func TestVerify_NamesTheDenial(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	ann := s.grant(t, "user:ann", "scope:default", "read subscribe")
	bob := s.grant(t, "user:bob", "path:default/orders/**", "read", ann.token)
	about := func(id, verb, object string) reply {
		return s.must(t, http.StatusOK, "POST /v1/grants/verify", `{"grant":"`+id+`","verb":"`+verb+`","object":"`+object+`"}`)
	}
	allowed := func(id, verb, object string) {
		t.Helper()
		r := about(id, verb, object)
		require.Equal(t, true, r.field(t, "allows"), r.text)
		require.NotContains(t, r.text, "denied_by")
	}
	denied := func(by, id, verb, object string) {
		t.Helper()
		r := about(id, verb, object)
		require.Equal(t, []any{true, false, by}, []any{r.field(t, "valid"), r.field(t, "allows"), r.field(t, "denied_by")}, r.text)
	}
	allowed(bob.id, "read", "path:default/orders/7")
	denied("grant", bob.id, "publish", "path:default/orders/7")
	denied("grant", bob.id, "read", "path:default/customers/7")
	denied("grant", bob.id, "read", "scope:other")

	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/user:bob", `{"tier":"read","pattern":"/orders/1"}`)
	denied("access_list", bob.id, "read", "path:default/orders/7")
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/user:bob", `{"tier":"read"}`)
	denied("access_list", bob.id, "read", "path:default/orders/7") // the list does not name ann, from whom bob has it
	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/user:ann", `{"tier":"read"}`)
	allowed(bob.id, "read", "path:default/orders/7")

	s.must(t, http.StatusOK, "PUT /v1/namespaces/default", `{"label":{"level":"SECRET"}}`)
	s.must(t, http.StatusOK, "PUT /v1/principals/user:bob", `{"clearance":{"level":"SECRET"}}`)
	denied("label", bob.id, "read", "path:default/orders/7")
	r := s.must(t, http.StatusOK, "POST /v1/grants/verify", `{"token":"`+bob.token+`","verb":"read","object":"path:default/orders/7"}`, as(ann.token)...)
	require.Equal(t, false, r.field(t, "allows"))
	require.NotContains(t, r.text, "denied_by", "ann may not know of the namespace")
	s.must(t, http.StatusOK, "PUT /v1/principals/user:ann", `{"clearance":{"level":"SECRET"}}`)
	allowed(bob.id, "read", "path:default/orders/7")

	r = s.call(t, "POST /v1/grants/verify", `{"grant":"`+ann.id+`"}`, as(bob.token)...)
	require.Equal(t, http.StatusNotFound, r.status, "bob may not see the grant of ann")
	for _, body := range []string{`{}`, `{"grant":"` + ann.id + `","token":"` + ann.token + `"}`} {
		require.Equal(t, http.StatusBadRequest, s.call(t, "POST /v1/grants/verify", body).status)
	}
	s.must(t, http.StatusOK, "POST /v1/grants/"+ann.id+"/revoke", "")
	r = about(bob.id, "read", "path:default/orders/7")
	require.Equal(t, []any{false, "revoked"}, []any{r.field(t, "valid"), r.field(t, "reason")})
}

// Issue 19, part 1: the settings of a server.
func TestSettings_AreThoseInForce(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) {
		c.HTTP.MaxBody = 12345
		c.NATS.Users = []config.NATSUser{{Name: "shop", Password: "a-password-of-the-test", Admin: true}}
	})
	require.Equal(t, http.StatusBadRequest, s.call(t, "GET /v1/settings?changed=true", "").status, "no parameter is ignored")
	r := s.must(t, http.StatusOK, "GET /v1/settings", "")
	require.Contains(t, r.text, `{"name":"http.max_body","value":12345,"default":8388608,"changed":true}`)
	require.Contains(t, r.text, `"name":"shop","namespaces":[],"nkey":"","password":"***"`)
}
