package endpoint

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// appendHead appends the request line and the headers of a request with a body of this size, as
// net/http writes them. Code Unprocessable if a header value has a line break or a zero byte. Names
// are sorted, so equal requests have equal bytes; User-Agent comes after Host, as net/http sends
// it. A line break would let a header of a subscription begin another request on a shared
// connection.
func appendHead(b []byte, req *http.Request, size int) ([]byte, error) {
	names := make([]string, 0, 32)
	for name, values := range req.Header {
		names = append(names, name)
		for _, value := range values {
			if strings.ContainsAny(value, "\r\n\x00") {
				return nil, sluice.Errorf(sluice.Unprocessable, "header %q has a line break", name)
			}
		}
	}
	slices.Sort(names)
	b = append(append(append(b, req.Method...), ' '), req.URL.RequestURI()...)
	b = append(b, " HTTP/1.1\r\n"...)
	b = appendField(b, "Host", req.Host)
	b = appendFields(b, req.Header, "User-Agent")
	if req.Close {
		b = appendField(b, "Connection", "close")
	}
	b = append(b, "Content-Length: "...)
	b = append(strconv.AppendInt(b, int64(size), 10), "\r\n"...)
	for _, name := range names {
		if name != "User-Agent" {
			b = appendFields(b, req.Header, name)
		}
	}
	return append(b, "\r\n"...), nil
}

func appendFields(b []byte, header http.Header, name string) []byte {
	for _, value := range header[name] {
		b = appendField(b, name, value)
	}
	return b
}

func appendField(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, strings.Trim(value, " \t")...), "\r\n"...)
}
