package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// Issue 18, item 1: the services have pinned images, few rights, and everything that they refer to.
func TestComposeFile_IsCompleteAndRestricted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(repository, "deploy", "compose", "compose.yaml")
	compose, err := readCompose(file)
	require.NoError(t, err)
	module, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	require.NoError(t, err)
	version := regexp.MustCompile(`nats-server/v2 v(\S+)`).FindSubmatch(module)[1]
	mounted := map[string]bool{}
	for name, s := range compose.Services {
		require.Regexp(t, `^[a-z/-]+:(v?\d+\.\d+\.\d+(-alpine)?|local)$`, s.Image, "%s: a pinned image", name)
		if strings.HasPrefix(s.Image, "nats:") {
			require.Equal(t, "nats:"+string(version)+"-alpine", s.Image, "the version that the tests run")
		}
		require.True(t, s.ReadOnly, name)
		require.Equal(t, []string{"ALL"}, s.CapDrop, name)
		require.Equal(t, []string{"no-new-privileges:true"}, s.SecurityOpt, name)
		require.Equal(t, name == "init", s.User == "0:0" || s.CapAdd != nil, "%s: root and capabilities", name)
		require.NotEmpty(t, s.User, name)
		for _, port := range s.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s: %s", name, port)
		}
		for _, v := range s.Volumes {
			if v.Type == "volume" {
				require.Contains(t, compose.Volumes, v.Source, name)
				mounted[v.Source] = true
				continue
			}
			require.Equal(t, "bind", v.Type)
			require.True(t, v.ReadOnly, "%s: %s", name, v.Source)
			_, err := os.Stat(filepath.Join(filepath.Dir(file), v.Source))
			require.NoError(t, err, name)
		}
		if before, ok := s.DependsOn["init"]; ok {
			require.Equal(t, "service_completed_successfully", before.Condition)
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(compose.Volumes)), slices.Collect(maps.Keys(mounted)), "every volume is used")
	grace, err := time.ParseDuration(compose.Services["sluice-1"].StopGracePeriod)
	require.NoError(t, err)
	require.GreaterOrEqual(t, grace, 65*time.Second, "an attempt, and shutdown_grace")
}

// Issue 18, item 1: Prometheus and Grafana read files that are there, and scrape services that are there.
func TestComposeFile_MonitoringFindsItsFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(repository, "deploy", "compose")
	compose, err := readCompose(filepath.Join(dir, "compose.yaml"))
	require.NoError(t, err)
	var prometheus struct {
		Global struct {
			Scrape     string `json:"scrape_interval"`
			Evaluation string `json:"evaluation_interval"`
		} `json:"global"`
		Rules  []string `json:"rule_files"`
		Scrape []struct {
			Job     string `json:"job_name"`
			Targets []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	decode(t, filepath.Join(dir, "prometheus.yml"), &prometheus)
	targets := prometheus.Scrape[0].Targets[0].Targets
	require.Len(t, targets, 2)
	for _, target := range targets {
		host, port, _ := strings.Cut(target, ":")
		require.Contains(t, compose.Services, host)
		require.Equal(t, "8080", port)
		require.Contains(t, string(compose.Services[host].Networks), `"metrics"`)
	}
	var grafana struct {
		API       int `json:"apiVersion"`
		Providers []struct {
			Name    string            `json:"name"`
			Type    string            `json:"type"`
			Updates bool              `json:"allowUiUpdates"`
			Options map[string]string `json:"options"`
		} `json:"providers"`
	}
	decode(t, filepath.Join(dir, "grafana", "dashboards.yaml"), &grafana)
	at := grafana.Providers[0].Options["path"]
	for _, name := range []string{"prometheus", "grafana"} {
		require.True(t, slices.ContainsFunc(compose.Services[name].Volumes, func(v composeVolume) bool {
			return v.Source == "../observability" && v.Target == at
		}), "%s mounts the dashboards and rules", name)
	}
	for _, rules := range prometheus.Rules {
		require.Equal(t, at, filepath.Dir(rules))
	}
}

// decode decodes a YAML file strictly.
func decode(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	as, err := yaml.YAMLToJSONStrict(text)
	require.NoError(t, err)
	d := json.NewDecoder(bytes.NewReader(as))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(into), file)
}
