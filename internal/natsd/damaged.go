package natsd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// DamagedDir is where Start puts the files of consumers that the server could not restore, below
// Options.StoreDir.
const DamagedDir = "damaged"

// consumerDir is the directory of one consumer.
type consumerDir struct{ account, stream, name, path string }

// setAside moves the directories of consumers that the server did not restore. While they are in
// place, the server neither serves such a consumer nor allows creating it again ("corrupt state
// file").
//
// Only directories from before the server's start are moved: a client may be creating a consumer
// right now. The directories of streams that a newer server wrote, which the server skips, stay in
// place.
func (s *Server) setAside(dir string, before []consumerDir, log *slog.Logger) error {
	if len(before) == 0 {
		return nil
	}
	restored, err := s.consumers()
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range before {
		names, served := restored[[2]string{c.account, c.stream}]
		if !served || names[c.name] || ofNewerServer(filepath.Dir(filepath.Dir(c.path))) {
			continue
		}
		to := filepath.Join(dir, DamagedDir, c.stream+"."+c.name+"."+time.Now().UTC().Format("20060102T150405.000000000"))
		err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.Rename(c.path, to))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("move damaged consumer %s of %s aside: %w", c.name, c.stream, err))
			continue
		}
		log.Error("consumer could not be restored: its damaged files were moved aside",
			slog.String("stream", c.stream), slog.String("consumer", c.name), slog.String("files", to))
	}
	return errors.Join(errs...)
}

// consumers returns the names of the consumers that the server serves, by account and stream.
func (s *Server) consumers() (map[[2]string]map[string]bool, error) {
	info, err := s.nats.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Consumer: true, DirectConsumer: true, Limit: maxAccounts})
	if err != nil {
		return nil, fmt.Errorf("list consumers: %w", err)
	}
	all := map[[2]string]map[string]bool{}
	for _, account := range info.AccountDetails {
		for i := range account.Streams {
			stream, names := &account.Streams[i], map[string]bool{}
			for _, c := range slices.Concat(stream.Consumer, stream.DirectConsumer) {
				names[c.Name] = true
			}
			all[[2]string{account.Id, stream.Name}] = names
		}
	}
	return all, nil
}

const maxAccounts = 1 << 20 // page size of Jsz

// consumerDirs returns the directories of consumers below a store. A name with a leading dot
// belongs to a deletion in progress.
func consumerDirs(dir string) ([]consumerDir, error) {
	paths, err := filepath.Glob(filepath.Join(globEscape(dir), jetStreamDir, "*", "streams", "*", "obs", "*"))
	if err != nil {
		return nil, fmt.Errorf("list consumers in %s: %w", dir, err)
	}
	var all []consumerDir
	for _, path := range paths {
		stream := filepath.Dir(filepath.Dir(path))
		c := consumerDir{filepath.Base(filepath.Dir(filepath.Dir(stream))), filepath.Base(stream), filepath.Base(path), path}
		if !strings.HasPrefix(c.stream, ".") && !strings.HasPrefix(c.name, ".") {
			all = append(all, c)
		}
	}
	return all, nil
}

const jetStreamDir = server.JetStreamStoreDir // below Options.StoreDir

// globEscape escapes Glob's special characters in a directory.
func globEscape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// ofNewerServer reports whether a newer server wrote a stream or one of its consumers. This server
// then does not serve the stream.
func ofNewerServer(stream string) bool {
	metas, err := filepath.Glob(filepath.Join(globEscape(stream), "obs", "*", server.JetStreamMetaFile))
	if err != nil {
		return true
	}
	newer := slices.ContainsFunc(metas, func(file string) bool { return unknownIn(file, &server.FileConsumerInfo{}) })
	return newer || unknownIn(filepath.Join(stream, server.JetStreamMetaFile), &server.FileStreamInfo{})
}

// unknownIn reports whether a file is JSON with fields unknown to this server.
func unknownIn(file string, known any) bool {
	text, err := os.ReadFile(file) //nolint:gosec // below the data directory
	if err != nil || !json.Valid(text) {
		return false // damaged
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if decoder.Decode(known) != nil {
		return true
	}
	var needs struct {
		Metadata map[string]string `json:"metadata"`
	}
	if json.Unmarshal(text, &needs) != nil {
		return false
	}
	level, err := strconv.Atoi(needs.Metadata[server.JSRequiredLevelMetadataKey])
	return err == nil && level > server.JSApiLevel
}
