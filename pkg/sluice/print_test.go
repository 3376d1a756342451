package sluice_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// However a subscription gets into a log or an error, its secrets do not.
func TestPrint_HidesSecrets(t *testing.T) {
	t.Parallel()
	sub := &sluice.Subscription{
		ID: "orders",
		Endpoint: sluice.Endpoint{
			URL: "https://user:hunter1@a.example/hook?token=hunter2#hunter3", Secret: "hunter4", Headers: map[string]string{"Authorization": "Bearer hunter5"},
			Auth: &sluice.EndpointAuth{ClientSecret: "hunter7"}, TLS: &sluice.EndpointTLS{PrivateKey: "hunter8"},
		},
		Credentials: sluice.Credentials{ClientSecret: "hunter9", PrivateKey: "hunter10"},
		Secrets:     []sluice.Secret{{Value: "whsec_hunter6hunter6hunter6hunter6hunter6aBcD"}},
	}
	var out bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		log := slog.New(h)
		log.Info("x", slog.Any("sub", sub), slog.Any("endpoint", sub.Endpoint), slog.Any("secret", sub.Secrets[0]), slog.Any("credentials", sub.Credentials))
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+verb+verb+verb+verb+verb, sub, *sub, sub.Endpoint, sub.Secrets, sub.Secrets[0], sub.Credentials)
	}
	require.NotContains(t, out.String(), "hunter")
	require.NotContains(t, out.String(), fmt.Sprintf("%x", "hunter"))
	require.Equal(t, "https://a.example/*** [Authorization]", sub.Endpoint.String())
	require.Equal(t, "credentials [client_secret private_key]", sub.Credentials.String())
	require.Equal(t, "secret ***aBcD", sub.Secrets[0].String())
	require.Equal(t, "secret ***", sluice.Secret{Value: "short"}.String())
	require.Equal(t, "*** []", sluice.Endpoint{URL: "::"}.String())
}

func TestHideURL_KeepsSchemeAndHost(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"": "", "https://a.example": "https://a.example", "https://a.example:8443": "https://a.example:8443",
		"https://a.example/": "https://a.example/***", "https://u@a.example": "https://a.example/***", "https://a.example?q": "https://a.example/***",
		"https://a.example#f": "https://a.example/***", "mailto:ann": "***", "https://[::1": "***",
	} {
		require.Equal(t, want, sluice.HideURL(address), address)
	}
	require.Equal(t, "secret ***", fmt.Sprint(sluice.Secret{Value: "short"}))
	headers := map[string]string{}
	for _, name := range []string{"d", "b", "a", "c", "e"} {
		headers[name] = "hunter"
	}
	require.Equal(t, "https://a.example [a b c d e]", fmt.Sprint(sluice.Endpoint{URL: "https://a.example", Headers: headers}))
}
