package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/caarlos0/env/v11"
)

const prefix = "SLUICE_"

// Load returns the defaults, changed by the JSON or YAML file at path (none if path is empty)
// and then by the variables of environ that are not empty ("KEY=value", as os.Environ returns
// them). A name in the file that is no setting is an error; a variable that is none is not,
// because orchestrators set SLUICE_* variables of their own. It does not call Check, so that
// flags can still put things right.
func Load(path string, environ []string) (Config, error) {
	c := Default()
	if path != "" {
		data, err := os.ReadFile(filepath.Clean(path))
		if err != nil {
			return Config{}, fmt.Errorf("read configuration: %w", err)
		}
		if err := c.decode(data); err != nil {
			return Config{}, fmt.Errorf("configuration %s: %w", path, err)
		}
	}
	vars := env.ToMap(environ)
	if err := c.applyVariables(vars); err != nil {
		return Config{}, err
	}
	if c.Data == "" {
		c.Data = defaultData(vars)
	}
	if c.Tracing.Endpoint == "" {
		c.Tracing.Endpoint = vars["OTEL_EXPORTER_OTLP_ENDPOINT"]
	}
	return c, nil
}

// applyVariables takes one variable after the other, so that an error can name it.
func (c *Config) applyVariables(vars map[string]string) error {
	var errs []error
	for key, value := range vars {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		opts := env.Options{Prefix: prefix, Environment: map[string]string{key: value}, FuncMap: parsers()}
		err := env.ParseWithOptions(c, opts)
		if parse, ok := errors.AsType[env.ParseError](err); ok {
			err = wrongValue(strconv.Quote(value), parse.Type, parse.Err)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("variable %s: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// parsers are of settings whose value in a variable is JSON.
func parsers() map[reflect.Type]env.ParserFunc {
	return map[reflect.Type]env.ParserFunc{reflect.TypeFor[[]NATSUser](): parseUsers}
}

func defaultData(vars map[string]string) string {
	if dir := vars["XDG_DATA_HOME"]; dir != "" {
		return filepath.Join(dir, "sluice")
	}
	if home := vars["HOME"]; home != "" {
		return filepath.Join(home, ".local", "share", "sluice")
	}
	return ""
}
