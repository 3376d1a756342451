package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A subscription and a publisher in a few lines.
func Example() {
	server := exampleServer() // in your program: the address of a real one
	defer server.Close()
	ctx := context.Background()
	c := client.New(server.URL, "the token")

	sub, _, err := c.CreateSubscription(ctx, client.SubscriptionSpec{
		Pattern:  "/orders/**",
		Endpoint: sluice.Endpoint{URL: "https://erp.example/hook"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("give this to the receiver:", sub.Endpoint.Secret)

	stored, err := c.Publish(ctx, sluice.DefaultNamespace, sluice.Event{
		Path: "/orders/42", Type: "order.placed", Data: []byte(`{"total":120}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stored as", stored[0].Seq)
	// Output:
	// give this to the receiver: whsec_c2VjcmV0
	// stored as 1
}

func exampleServer() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/subscriptions", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprint(w, `{"id":"s","endpoint":{"secret":"whsec_c2VjcmV0"}}`)
	})
	mux.HandleFunc("POST /v1/namespaces/{ns}/events", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprint(w, `{"events":[{"id":"a","seq":1,"path":"/orders/42"}]}`)
	})
	return httptest.NewServer(mux)
}
