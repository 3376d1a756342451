// Package cmdkit has the helpers that the packages of commands share: values become text, and arguments become values.
package cmdkit
