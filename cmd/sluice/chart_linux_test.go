package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// chartObject is what the tests of the product read of the rendered objects. scripts/chart decodes them strictly.
type chartObject struct {
	Kind string            `json:"kind"`
	Data map[string]string `json:"data"`
	Spec struct {
		Replicas int `json:"replicas"`
		Template struct {
			Spec struct {
				Containers []chartContainer `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type chartContainer struct {
	Command []string `json:"command"`
	Args    []string `json:"args"`
	Env     []struct {
		Name      string `json:"name"`
		Value     string `json:"value"`
		ValueFrom *struct {
			SecretKeyRef struct{ Name, Key string } `json:"secretKeyRef"`
		} `json:"valueFrom"`
	} `json:"env"`
	VolumeMounts []struct {
		Name      string `json:"name"`
		MountPath string `json:"mountPath"`
		SubPath   string `json:"subPath"`
	} `json:"volumeMounts"`
	Readiness struct {
		HTTPGet struct{ Path string } `json:"httpGet"`
	} `json:"readinessProbe"`
}

// rendered returns the workload and the configuration of an example.
func rendered(t *testing.T, example string) (workload chartObject, configuration string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "deploy", "helm", "rendered", example+".yaml"))
	require.NoError(t, err)
	for _, document := range bytes.Split(text, []byte("\n---\n"))[1:] {
		var o chartObject
		require.NoError(t, yaml.Unmarshal(document, &o))
		switch o.Kind {
		case "Deployment", "StatefulSet":
			workload = o
		case "ConfigMap":
			configuration = o.Data["config.yaml"]
		}
	}
	require.Len(t, workload.Spec.Template.Spec.Containers, 1)
	return workload, configuration
}

// Issue 18, item 1: what is rendered beside the chart is of this chart, and its configurations are valid.
func TestChart_RenderedFilesAreOfThisChart(t *testing.T) {
	t.Parallel()
	helm, sum := filepath.Join(repository, "deploy", "helm"), sha256.New()
	for _, dir := range []string{"sluice", "examples"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(helm, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			sum.Write(text)
			return err
		}))
	}
	files, err := filepath.Glob(filepath.Join(helm, "rendered", "*.yaml"))
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		first, _, _ := strings.Cut(string(text), "\n")
		require.Contains(t, first, hex.EncodeToString(sum.Sum(nil)), "%s: UPDATE_RENDERED=1 make chart-check", file)
		_, configuration := rendered(t, strings.TrimSuffix(filepath.Base(file), ".yaml"))
		own := filepath.Join(t.TempDir(), "config.yaml")
		require.NoError(t, os.WriteFile(own, []byte(configuration), 0o600))
		_, err = config.Load(own, nil)
		require.NoError(t, err, file)
	}
}

// pods are the containers of a workload, on loopback addresses.
type pods struct {
	network string
	secrets map[string]map[string]string // by name and key
	hosts   map[string]string
}

func newPods() *pods {
	return &pods{network: fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(256)), hosts: map[string]string{}}
}

// start runs the nth container of a workload, until the test ends it.
func (p *pods) start(t *testing.T, n int, of chartContainer, configuration string) *container {
	t.Helper()
	c := &container{name: fmt.Sprintf("pod %d", n), root: t.TempDir(), address: fmt.Sprintf("%s%d", p.network, n+1), hosts: p.hosts, path: os.Getenv("PATH"), argv: append(of.Command, of.Args...)}
	for _, e := range of.Env {
		if e.ValueFrom != nil {
			from := e.ValueFrom.SecretKeyRef
			e.Value = p.secrets[from.Name][from.Key]
			require.NotEmpty(t, e.Value, e.Name)
		}
		c.environ = append(c.environ, e.Name+"="+e.Value)
	}
	c.environ = append(c.environ, "SLUICE_WEBHOOKS_ALLOW_INSECURE_LOOPBACK=true") // for receivers of tests
	files := map[string]map[string]string{
		"config": {"config.yaml": configuration}, "identity": p.secrets["sluice"], "nats": p.secrets["sluice-nats"], "nats-ca": p.secrets["sluice-nats-ca"],
	}
	for _, m := range of.VolumeMounts {
		if m.Name != "tmp" { // there is one already
			c.targets = append(c.targets, m.MountPath)
		}
	}
	for _, m := range of.VolumeMounts {
		at := filepath.Join(c.root, m.MountPath)
		if m.SubPath != "" {
			at = filepath.Dir(at)
		}
		require.NoError(t, os.MkdirAll(at, 0o700))
		for name, content := range files[m.Name] {
			if m.SubPath == "" || m.SubPath == name {
				require.NoError(t, os.WriteFile(filepath.Join(at, name), []byte(c.outside(content)), 0o600))
			}
		}
	}
	require.NoError(t, c.start(t.Context()))
	t.Cleanup(func() { require.NoError(t, c.stop(syscall.SIGKILL)) })
	return c
}

// ready waits until the readiness probe succeeds.
func (p *pods) ready(t *testing.T, c *container, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, c.healthy(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+":8080"+path, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		if resp != nil {
			err = errors.Join(err, resp.Body.Close())
		}
		return err
	}))
}

// delivers subscribes at one pod, publishes at another, and waits for the request.
func delivers(t *testing.T, token string, at, publish *container) {
	t.Helper()
	hook := hooktest.New(t, nil)
	api := client.New("http://"+at.address+":8080", token)
	_, _, err := api.CreateSubscription(t.Context(), map[string]any{"id": "orders", "pattern": "/orders/**", "endpoint": map[string]any{"url": hook.URL}})
	require.NoError(t, err)
	other := client.New("http://"+publish.address+":8080", token)
	_, err = other.Publish(t.Context(), sluice.DefaultNamespace, sluice.Event{Path: "/orders/1", Type: "order.placed", Data: []byte(`{}`)})
	require.NoError(t, err)
	hook.Wait(1)
}

// Issue 18, item 1: the containers of both forms of the chart, run as processes, become ready, deliver, and stop in order.
func TestChart_ContainersServe(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		p := newPods()
		operator, authority, creds := natstest.NewOperator(t), natstest.NewAuthority(t), filepath.Join(t.TempDir(), "sluice.creds")
		operator.Account(t, "APP", natstest.Unlimited()).WriteCreds(t, creds, time.Now().Add(time.Hour))
		at, err := url.Parse(natstest.Custom(t, func(o *server.Options) {
			operator.Trust(o)
			o.TLSConfig, o.TLSTimeout = authority.TLS(t, tls.NoClientCert), patience.Seconds()
		}))
		require.NoError(t, err)
		for _, host := range []string{"nats-0", "nats-1", "nats-2"} {
			p.hosts[host+".nats.nats.svc"] = at.Host
		}
		login, err := os.ReadFile(creds)
		require.NoError(t, err)
		ca, err := os.ReadFile(authority.File)
		require.NoError(t, err)
		p.secrets = map[string]map[string]string{
			"sluice": {"root.token": "root_1", "secrets.key": "c2hhcmVkIGJ5IHRoZSBzZXJ2ZXJzIG9mIGEgdGVzdCE="}, "sluice-nats": {"sluice.creds": string(login)}, "sluice-nats-ca": {"ca.crt": string(ca)},
		}
		workload, configuration := rendered(t, "cluster")
		configuration = strings.NewReplacer("replicas: 3", "replicas: 1").Replace(configuration) // this NATS is one server
		of := workload.Spec.Template.Spec.Containers[0]
		require.Equal(t, 2, workload.Spec.Replicas)
		one, two := p.start(t, 0, of, configuration), p.start(t, 1, of, configuration)
		p.ready(t, one, of.Readiness.HTTPGet.Path)
		p.ready(t, two, of.Readiness.HTTPGet.Path)
		delivers(t, "root_1", one, two)
		require.NoError(t, one.stop(syscall.SIGTERM))
		require.NoError(t, two.stop(syscall.SIGTERM))
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		p := newPods()
		p.secrets = map[string]map[string]string{"sluice-nats-users": {"users.json": `[{"name":"shop","password":"open","namespaces":["default"]}]`}}
		workload, configuration := rendered(t, "embedded")
		of := workload.Spec.Template.Spec.Containers[0]
		one := p.start(t, 0, of, configuration)
		p.ready(t, one, of.Readiness.HTTPGet.Path)
		token, err := os.ReadFile(filepath.Join(one.root, "data", "root.token"))
		require.NoError(t, err)
		delivers(t, strings.TrimSpace(string(token)), one, one)
		require.NoError(t, one.stop(syscall.SIGTERM))
	})
}
