/* cost/comm.c -- the seconds of communication between ranks.
 *
 *   seconds of a leg (ops/talk.h) = messages x latency + bytes / the slowest link that its group crosses
 *
 * A node is `node` consecutive ranks, joined by `link`. Between nodes each rank has `node_link`. A group counts as inside a node only if
 * all groups of its kind are. A group across nodes has the speed of the slowest link, because collectives are flat.
 */
#include "cost/internal.h"

#include <math.h>

#include "comm/comm.h"

/* Groups of a kind fill the world block by block. They all lie inside nodes if the size of a block divides the size of a node. */
static bool crosses_nodes(const rp_cost_table *t, int world, const rp_leg *leg)
{
    return t->node > 0 && world > t->node && t->node % ((int64_t)leg->ranks * leg->apart) != 0;
}

static double leg_seconds(const rp_cost_table *t, int world, const rp_leg *leg)
{
    double link = crosses_nodes(t, world, leg) ? fmin(t->link, t->node_link) : t->link;

    return link > 0 ? (double)leg->messages * t->latency + (double)leg->bytes / link : 0;
}

double rp__cost_talk_seconds(const rp_cost_table *t, int world, const rp_talk *talk)
{
    double seconds = 0;

    for (int i = 0; i < talk->n; i++) seconds += leg_seconds(t, world, &talk->leg[i]);
    return seconds;
}

double rp__cost_comm_seconds(const rp_cost_table *table, const rp_op_meta *call, rp_pass pass)
{
    rp_talk talk = rp__talk(call, pass, rp__cost_comm_bytes(call, pass));

    return rp__cost_talk_seconds(table, rp__comm_ranks(rp__world(call->ctx)), &talk);
}

int64_t rp__cost_comm_bytes(const rp_op_meta *call, rp_pass pass) { return rp__cost_work(call, pass).comm_bytes; }

rp_cost_links rp__cost_links(const rp_cost_table *t)
{
    return (rp_cost_links){ .link = t->link, .node_link = t->node > 0 ? fmin(t->link, t->node_link) : t->link, .latency = t->latency, .node = t->node };
}

double rp__cost_link(const rp_cost_table *table) { return table->link; }
bool rp__cost_overlaps(const rp_cost_table *table) { return table->overlap; }

uint64_t rp__cost_links_hash(const rp_cost_table *t, uint64_t hash)
{
    hash = rp__hash(&t->latency, sizeof t->latency, rp__hash(&t->link, sizeof t->link, hash));
    return rp__hash(&t->node, sizeof t->node, rp__hash(&t->node_link, sizeof t->node_link, hash));
}
