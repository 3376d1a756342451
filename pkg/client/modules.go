package client

import (
	"context"
	"net/http"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const modules = "/v1/modules"

// Modules returns the modules of the server, by name, and how it runs programs.
func (c *Client) Modules(ctx context.Context) (sluice.ModuleList, error) {
	return send[sluice.ModuleList](ctx, c, call{method: http.MethodGet, path: modules}, nil)
}

// Module returns one module, with its processes on the server that answers. Code NotFound.
func (c *Client) Module(ctx context.Context, name string) (sluice.Module, error) {
	return send[sluice.Module](ctx, c, call{method: http.MethodGet, path: join(modules, name)}, nil)
}

// ApproveModule has the programs of a module run on events, if its files have the digest. Codes NotFound; Unprocessable if it
// cannot be loaded; RevisionMismatch if its files have another digest; Forbidden.
func (c *Client) ApproveModule(ctx context.Context, name, digest string) (sluice.Module, error) {
	return send[sluice.Module](ctx, c, call{method: http.MethodPost, path: join(modules, name, "approve")}, map[string]string{"digest": digest})
}

// DisableModule stops the programs of a module; its subscriptions pause. Code NotFound.
func (c *Client) DisableModule(ctx context.Context, name string) (sluice.Module, error) {
	return send[sluice.Module](ctx, c, call{method: http.MethodPost, path: join(modules, name, "disable")}, nil)
}

// RemoveModule ends the approval of a module, and its subscriptions with it. Code NotFound.
func (c *Client) RemoveModule(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(modules, name)}, nil)
	return err
}
