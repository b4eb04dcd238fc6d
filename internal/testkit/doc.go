// Package testkit holds what tests of several rooms share: real parts to run against, and builders of
// inputs. Only tests and benchmarks import it.
//
// It owns no product behaviour, and nothing in it skips: a part that is missing fails the test.
package testkit
