// Package access serves rights over HTTP: grants, access lists, the clearance of principals, and the
// links and sessions of the portal.
package access
