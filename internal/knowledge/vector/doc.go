// Package vector finds the nearest neighbours of a vector by cosine similarity.
//
// A small index is searched exactly. In a larger one each vector also has a sketch of 1,024 bits: the
// signs of its coordinates after random rotations. The angle between two vectors is about proportional
// to the number of bits in which their sketches differ, so a search compares all sketches, takes the
// candidates with the fewest differences, and ranks these exactly. Nothing is trained and there is no
// graph: a vector is added, replaced and removed in constant time, and the order in which that happens
// does not matter.
package vector
