// Package webhook verifies and parses the requests that Sluice sends to receivers. It covers every
// signature scheme, for signing and verifying, and every envelope. A handler creates one Receiver,
// passes it each request, and gets a Delivery or an error:
//
//	hook := webhook.Receiver{Secrets: []string{secret}}
//	…
//	d, err := hook.Receive(r)
//	if err != nil {
//		http.Error(w, err.Error(), webhook.Status(err))
//		return
//	}
//
// A worker that a subscription of mode wake wakes gets a Notice from ReceiveNotice, and calls back.
//
// Respond with 2xx within the subscription's timeout once the event is safely stored; any other
// response leads to a retry. An event may be delivered more than once: remember the IDs of the
// events that you have handled (Delivery.ID is the same in all attempts and replays). The package
// imports nothing else of Sluice, so it can be copied.
package webhook
