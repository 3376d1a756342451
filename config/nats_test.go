package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestUsers_ComeFromFileAndVariable(t *testing.T) {
	t.Parallel()
	want := []config.NATSUser{
		{Name: "shop", Password: "sesame", Namespaces: []string{"acme", "other"}, Trusted: true, Read: true},
		{Name: "ops", NKey: "U" + strings.Repeat("A", 55), Admin: true},
	}
	c, err := config.Load(write(t, `
nats:
  listen: 0.0.0.0:4222
  users:
    - {name: shop, password: sesame, namespaces: [acme, other], trusted: true, read: true}
    - {name: ops, nkey: U`+strings.Repeat("A", 55)+`, admin: true}
`), []string{"HOME=/h"})
	require.NoError(t, err)
	require.NoError(t, c.Check())
	require.Equal(t, want, c.NATS.Users)
	require.Equal(t, []bool{true, true, true}, []bool{c.NATS.Guarded(), c.NATS.Trusts(), c.NATS.Readers()})

	c, err = config.Load(write(t, "nats: {users: [{name: old, password: x, namespaces: [a]}]}"),
		[]string{`SLUICE_NATS_USERS=[{"name":"shop","password":"sesame","namespaces":["acme"]}]`, "SLUICE_NATS_ACCOUNT_JWTS=a,b"})
	require.NoError(t, err)
	require.Equal(t, []config.NATSUser{{Name: "shop", Password: "sesame", Namespaces: []string{"acme"}}}, c.NATS.Users)
	require.Equal(t, []string{"a", "b"}, c.NATS.AccountJWTs)
	require.Equal(t, []bool{true, false, false}, []bool{c.NATS.Guarded(), c.NATS.Trusts(), c.NATS.Readers()})
}

func TestUsers_UnreadableOnesAreRefusedWithoutTheirPasswords(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, env, want string }{
		"unknown name":     {"nats: {users: [{nickname: ann, password: sesame}]}", "", "setting nats.users[0].nickname is unknown; valid settings here are admin, name"},
		"wrong value":      {"nats: {users: [{name: ann, password: sesame, trusted: often}]}", "", `setting nats.users[0].trusted: "often" is not true or false`},
		"no list":          {"nats: {users: {ann: sesame}}", "", "setting nats.users: it is not a list such as"},
		"no group":         {"nats: {users: [sesame]}", "", "setting nats.users[0] is a group of settings"},
		"variable":         {"", "SLUICE_NATS_USERS=ann:sesame", "variable SLUICE_NATS_USERS: it is not a list such as"},
		"variable, a name": {"", `SLUICE_NATS_USERS=[{"pass":"sesame"}]`, "variable SLUICE_NATS_USERS: it is not a list such as"},
	} {
		_, err := config.Load(write(t, tt.file), []string{tt.env})
		require.ErrorContains(t, err, tt.want, name)
		require.NotContains(t, err.Error(), "sesame", name)
	}
}

// S4-28, C38: a server that is open to a network says so in its settings.
func TestCheck_OpenNetworkNeedsAnExplicitSetting(t *testing.T) {
	t.Parallel()
	user := func(change func(*config.NATSUser)) func(*config.NATS) {
		return func(n *config.NATS) {
			n.Users = []config.NATSUser{{Name: "ann", Password: "sesame", Namespaces: []string{"acme"}}}
			change(&n.Users[0])
		}
	}
	same := func(*config.NATSUser) {}
	guarded := user(same)
	tests := []struct {
		name   string
		change func(*config.NATS)
		want   string // "": all is well
	}{
		{"a network", func(n *config.NATS) { n.Listen = "0.0.0.0:4222" }, `nats.listen "0.0.0.0:4222": without users, only addresses of this machine`},
		{"all addresses", func(n *config.NATS) { n.Listen = ":4222" }, "without users, only addresses of this machine"},
		{"a name", func(n *config.NATS) { n.Listen = "nats.example:4222" }, "without users, only addresses of this machine"},
		{"a network, knowingly", func(n *config.NATS) { n.Listen, n.AllowAnonymous = "0.0.0.0:4222", true }, ""},
		{"a network with users", func(n *config.NATS) { guarded(n); n.Listen = "0.0.0.0:4222" }, ""},
		{"this machine", func(n *config.NATS) { n.Listen = "[::1]:4222" }, ""},
		{"this machine by name", func(n *config.NATS) { n.Listen = "localhost:4222" }, ""},
		{"this process", func(n *config.NATS) { n.Listen = "none" }, ""},
		{"an operator", func(n *config.NATS) {
			n.Operator, n.AccountJWTs, n.Credentials, n.Listen = "o", []string{"a"}, "c", "0.0.0.0:1"
		}, ""},
		{"an operator without accounts", func(n *config.NATS) { n.Operator, n.Credentials = "o", "c" }, "set account_jwts, and credentials"},
		{"an operator without credentials", func(n *config.NATS) { n.Operator, n.AccountJWTs = "o", []string{"a"} }, "set account_jwts, and credentials"},
		{"accounts without an operator", func(n *config.NATS) { n.AccountJWTs = []string{"a"} }, "nats.account_jwts: set nats.operator"},
		{"users and an operator", func(n *config.NATS) { guarded(n); n.Operator, n.AccountJWTs, n.Credentials = "o", []string{"a"}, "c" }, "set either users or operator"},
		{"users and anonymous access", func(n *config.NATS) { guarded(n); n.AllowAnonymous = true }, "nats.allow_anonymous: has no effect with users"},
		{"users elsewhere", func(n *config.NATS) { guarded(n); n.URL = "nats://a" }, "apply to the embedded server"},
		{"half a certificate", func(n *config.NATS) { n.ServerTLS.Cert = "c" }, "nats.server_tls: set cert and key together"},
		{"clients' certificates only", func(n *config.NATS) { n.ServerTLS.ClientCA = "c" }, "set cert and key, too"},
		{"a user", guarded, ""},
		{"every namespace", user(func(u *config.NATSUser) { u.Namespaces = []string{"*"} }), ""},
		{"no name", user(func(u *config.NATSUser) { u.Name = "" }), "nats.users[0].name"},
		{"a name with a dot", user(func(u *config.NATSUser) { u.Name = "a.b" }), `nats.users[0].name "a.b"`},
		{"no password", user(func(u *config.NATSUser) { u.Password = "" }), "set either password or nkey"},
		{"both", user(func(u *config.NATSUser) { u.NKey = "U" + strings.Repeat("A", 55) }), "set either password or nkey"},
		{"a seed", user(func(u *config.NATSUser) { u.Password, u.NKey = "", "SU"+strings.Repeat("A", 56) }), "write a user's public key"},
		{"no namespace", user(func(u *config.NATSUser) { u.Namespaces = nil }), "name at least one"},
		{"a wildcard", user(func(u *config.NATSUser) { u.Namespaces = []string{"acme.>"} }), `"acme.>" is not a namespace`},
		{"an admin", user(func(u *config.NATSUser) { u.Namespaces, u.Admin = nil, true }), ""},
		{"an admin of a namespace", user(func(u *config.NATSUser) { u.Admin = true }), "an admin may do everything"},
		{"twice", func(n *config.NATS) { guarded(n); n.Users = append(n.Users, n.Users[0]) }, "duplicate user ann"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			c.Data = t.TempDir()
			tt.change(&c.NATS)
			err := c.Check()
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
			require.NotContains(t, err.Error(), "sesame")
		})
	}
}
