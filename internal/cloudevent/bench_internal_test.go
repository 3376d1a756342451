package cloudevent

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func BenchmarkParse(b *testing.B) {
	pad := strings.Repeat("x", 200)
	for name, body := range map[string]string{
		"short":      `{"path":"/orders/42","type":"order.created","data":{"pad":"` + pad + `"}}`,
		"cloudevent": `{"specversion":"1.0","id":"1","source":"/shop","type":"order.created","path":"/orders/42","data":{"pad":"` + pad + `"}}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			header := http.Header{"Content-Type": {"application/json"}}
			for b.Loop() {
				_, err := Parse(header, []byte(body), "")
				require.NoError(b, err)
			}
		})
	}
}
