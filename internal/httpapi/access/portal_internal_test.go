package access

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// The portal begins at a page of its own, in every browser.
func TestCheckNext_AllowsOnlyThePortalsPages(t *testing.T) {
	t.Parallel()
	for _, next := range []string{
		"", "/portal/", "/portal/attempts", "/portal/subscriptions/erp?tab=dead&since=24h", "/portal/?theme=dark", "/portal/a/",
	} {
		require.NoError(t, checkNext(next), next)
	}
	for _, next := range []string{
		"https://evil.example/portal/", "http:/portal/", "//evil.example/portal/", "///evil.example", "/\\evil.example", "\\\\evil.example", "/portal/\\..\\..\\",
		"javascript:alert(1)", "JavaScript:alert(1)//portal/", "java\tscript:alert(1)", "data:text/html,x", "vbscript:x", " /portal/", "/portal/ x", "\x00/portal/", "/portal/\r\nLocation: x", "/portal/\u202e", "/portal/ä",
		"/", "/portal", "/portalx/", "/console/", "portal/", "./portal/", "?x", "#", "#/attempts", "/portal/#", "/portal/#/attempts", "#code=plk_x", "/portal/#code=plk_x", "/portal/#token=x",
		"/portal/../v1", "/portal/./x", "/portal//evil.example", "/portal/%2e%2e/x", "/portal/%2f/evil.example", "/portal/%5cevil.example", "/%70ortal/", "/portal/%zz",
		"@evil.example/portal/", "//user@evil.example/portal/", "/portal/" + strings.Repeat("a", maxPortalNext),
	} {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(checkNext(next)), "%q", next)
	}
}
