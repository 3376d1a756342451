// Package accesscmd has the commands about access: grants, access lists, clearances, links to the portal, tickets, erasing.
package accesscmd
