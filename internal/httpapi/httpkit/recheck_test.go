package httpkit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// The error of the check is that of the request, also one of another protocol; a body that breaks off is incomplete.
func TestRecheck_BodyEndsWithItsError(t *testing.T) {
	t.Parallel()
	broken := iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("body")))
	for _, tt := range []struct {
		from io.Reader
		says error
	}{
		{strings.NewReader("body"), streamsub.Missing()},
		{strings.NewReader("body"), sluice.Errorf(sluice.Unauthenticated, "revoked")},
		{broken, sluice.Errorf(sluice.InvalidRequest, "the body is incomplete")},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", tt.from)
		c := echo.New().NewContext(req, httptest.NewRecorder())
		httpkit.Recheck(c, func() error { return tt.says })
		_, err := httpkit.Body(c)
		require.Equal(t, httpkit.Public(tt.says), httpkit.Public(err))
	}
}
