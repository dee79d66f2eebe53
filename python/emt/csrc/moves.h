#ifndef TIERWISE_EMT_MOVES_H
#define TIERWISE_EMT_MOVES_H

/* The node of each page, or an error number below zero; -1 and errno if the call itself failed. */
int where_pages(unsigned long count, void **addresses, int *status);

#endif
