// Command nothing is the handler of a module that is done at once.
package main

func main() {}
