package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

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
	mux.HandleFunc("POST /v1/subscriptions/{id}/sync", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"state":"idle","watermark":7,"explanation":"1 entries, 0 sequences behind low; synced 0s ago"}`)
	})
	mux.HandleFunc("GET /v1/namespaces/{ns}/items", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"items":[{"source":"mirrored","subscription_id":"reports","op":"write","seq":7,"id":"a","path":"/reports/1","type":"report"}],"next_cursor":""}`)
	})
	mux.HandleFunc("POST /v1/namespaces/{ns}/events", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprint(w, `{"events":[{"id":"a","seq":1,"path":"/orders/42"}]}`)
	})
	mux.HandleFunc("GET /v1/namespaces/{ns}/state", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"seq":7,"events":[
			{"specversion":"1.0","id":"a","source":"/s","type":"order.paid","path":"/orders/41","sequence":"3"},
			{"specversion":"1.0","id":"b","source":"/s","type":"order.placed","path":"/orders/42","sequence":"6"}],"next_cursor":""}`)
	})
	mux.HandleFunc("GET /v1/namespaces/{ns}/feed", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "id: 7\ndata: {\"subscribed\":true,\"current_seq\":7}\n\n",
			"id: 8\ndata: {\"seq\":8,\"event\":{\"specversion\":\"1.0\",\"id\":\"c\",\"source\":\"/s\",\"type\":\"order.sent\",\"path\":\"/orders/41\"}}\n\n")
	})
	return httptest.NewServer(mux)
}

// Events that must not hold up what they tell of.
func ExamplePublisher() {
	server := exampleServer() // in your program: the address of a real one
	defer server.Close()
	ctx := context.Background()
	p := client.New(server.URL, "the token").NewPublisher(sluice.DefaultNamespace, client.PublisherOptions{Queue: 10_000})
	go func() { _ = p.Run(ctx) }()

	if !p.Emit(sluice.Event{Path: "/orders/42", Type: "order.placed", Data: []byte(`{"total":120}`)}) {
		fmt.Println("the queue is full, and the event is counted as dropped")
	}

	limit, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := p.Close(limit); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%+v\n", p.Stats())
	// Output:
	// {Stored:1 Dropped:0 Waiting:0}
}

// What is, and where to go on from.
func ExampleClient_State() {
	server := exampleServer() // in your program: the address of a real one
	defer server.Close()
	ctx := context.Background()
	c := client.New(server.URL, "the token")

	state, q := map[sluice.Path]string{}, client.StateQuery{Pattern: "/orders/**"}
	for more := true; more; more = q.Cursor != "" {
		page, err := c.State(ctx, sluice.DefaultNamespace, q)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, ev := range page.Events {
			state[ev.Path] = ev.Type
		}
		q.At, q.Cursor = page.Seq, page.Next
	}
	fmt.Println(state)
	fmt.Println("read the events since", q.At)
	// Output:
	// map[/orders/41:order.paid /orders/42:order.placed]
	// read the events since 7
}

// What is, and then what happens: the last event of every path, and those that come, for as long as the context lasts.
func ExampleClient_Feed() {
	server := exampleServer() // in your program: the address of a real one
	defer server.Close()
	ctx, enough := context.WithCancel(context.Background())
	defer enough()
	c := client.New(server.URL, "the token")

	for item, err := range c.Feed(ctx, sluice.DefaultNamespace, client.FeedQuery{Pattern: "/orders/**", Since: client.LastPerPath}) {
		switch {
		case err != nil:
			fmt.Println("over:", err)
			return
		case item.Event != nil:
			fmt.Println(item.Seq, item.Event.Path, item.Event.Type)
		case item.Lagged != nil:
			fmt.Println("too slow, missed", item.Lagged.Missed)
		case item.Away != nil:
			fmt.Println("the server is away; the feed goes on behind", item.Resume)
		}
		if item.Seq == 8 {
			return // leaving the loop ends the feed
		}
	}
	// Output:
	// 3 /orders/41 order.paid
	// 6 /orders/42 order.placed
	// 8 /orders/41 order.sent
}

// A copy of the namespace low in the namespace high.
func ExampleClient_CreateMirror() {
	server := exampleServer() // in your program: the address of a real one
	defer server.Close()
	ctx := context.Background()
	c := client.New(server.URL, "the token")

	if _, err := c.CreateMirror(ctx, client.MirrorSpec{ID: "reports", Namespace: "high", Source: "low", Depth: sluice.DepthFull}); err != nil {
		fmt.Println(err)
		return
	}
	status, done, err := c.SyncMirror(ctx, "reports", 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(done, "up to", status.Watermark)

	q := client.ItemsQuery{Mirror: "reports"}
	for more := true; more; more = q.After != "" {
		page, err := c.Items(ctx, "high", q)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, item := range page.Items {
			fmt.Println(item.Subscription, item.Change.Op, item.Change.Event.Path)
		}
		q.After = page.Next
	}
	// Output:
	// true up to 7
	// reports write /reports/1
}
