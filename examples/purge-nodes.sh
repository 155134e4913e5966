#!/bin/sh
# Purges on every node of a fleet: purge-nodes.sh "10.0.0.11:9180 10.0.0.12:9180" /film.mp4
# Takes the arguments of `rangeway purge`. RANGEWAY names the command, RANGEWAY_ADMIN_TOKEN holds the token of the nodes.
# Ends with 1 if a node did not answer: keep such a node out of the balancer, and purge it again before it serves.
nodes=$1
shift
failed=
for node in $nodes; do
  ${RANGEWAY:-rangeway} purge --admin "$node" --token env:RANGEWAY_ADMIN_TOKEN "$@" || failed="$failed $node"
done
[ -z "$failed" ] && exit 0
echo "not purged:$failed" >&2
exit 1
