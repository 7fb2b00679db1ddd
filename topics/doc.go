// Package topics names topics with their codecs, and compares the topics that a pipeline wants with the topics that a
// broker has.
//
// The comparison ([Plan]) is pure: wants and haves in, steps out, each with its reasons. [Admin] reads the haves from a broker
// and applies the steps.
package topics
