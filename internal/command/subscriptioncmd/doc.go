// Package subscriptioncmd has the commands about subscriptions and their deliveries: definitions, states, replays, dead letters.
package subscriptioncmd
