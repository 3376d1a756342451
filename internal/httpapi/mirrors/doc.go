// Package mirrors serves what mirrors copy over HTTP: the changes of a namespace, bundles of them,
// and the mirrors themselves with their entries and topics.
package mirrors
