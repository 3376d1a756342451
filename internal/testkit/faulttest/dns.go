package faulttest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
)

// DNS resolves every name to one IPv4 address, which may change. It is safe for concurrent use.
// Call Set first.
type DNS struct{ addr atomic.Pointer[netip.Addr] }

// Set sets the address.
func (d *DNS) Set(addr string) {
	a := netip.MustParseAddr(addr)
	d.addr.Store(&a)
}

// Resolver returns a resolver that asks d.
func (d *DNS) Resolver() *net.Resolver { return Resolver(d.answer) }

// Resolver returns a resolver that passes each question to answer, with the framing of DNS over TCP
// and one question per connection. answer is called from many goroutines. It returns nil to close
// the connection with an empty answer.
func Resolver(answer func(question []byte) []byte) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer func() { _ = ours.Close() }()
			var size [2]byte
			if _, err := io.ReadFull(ours, size[:]); err != nil {
				return
			}
			question := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(ours, question); err != nil {
				return
			}
			said := answer(question)
			_, _ = ours.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(said))), said...)) //nolint:gosec // a few dozen bytes
		}()
		return theirs, nil
	}}
}

// answer answers a question. It repeats the header and the name, and adds the address if the
// question is for an A record.
func (d *DNS) answer(question []byte) []byte {
	const head = 12
	end := head
	for end < len(question) && question[end] != 0 {
		end += 1 + int(question[end])
	}
	end += 1 + 4 // the root, type and class
	if end > len(question) {
		return nil
	}
	isA := binary.BigEndian.Uint16(question[end-4:]) == 1
	answer := append([]byte{question[0], question[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question[head:end]...)
	if isA {
		answer[7] = 1
		answer = append(answer, 0xC0, head, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		answer = append(answer, d.addr.Load().AsSlice()...)
	}
	return answer
}
