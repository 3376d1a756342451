// Package subscriptioncmd has the commands about subscriptions and their deliveries: definitions,
// states, replays, dead letters.
//
// Every command makes requests of the API with the session's client and holds no state of its own,
// so the server decides about access and validity. Lists read all pages up to --limit and print a
// table, or with -o json one document. The exit status is 2 for an invalid command line, which is
// reported before the first request, and 1 for a refusal of the server.
//
// Commands that lose data, or send many events again, ask first: rm, rotate --overlap 0s, seek,
// replay of everything, dead rm. Without a terminal they require --yes. Pause, resume, edit and
// retry can be reversed or repeated, and do not ask.
package subscriptioncmd
