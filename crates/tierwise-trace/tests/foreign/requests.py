"""Writes 1,200 requests of 200 objects, zipfian, in ten seconds, as libCacheSim's oracleGeneral.

libCacheSim itself converts them from CSV: pip install libcachesim.
"""

import random
import sys

import libcachesim

REQUESTS, OBJECTS, PER_SECOND = 1200, 200, 120

random.seed(5)
weights = [1 / (rank + 1) for rank in range(OBJECTS)]
with open("requests.csv", "w", encoding="utf-8") as file:
    file.write("time,object,size\n")
    for request in range(REQUESTS):
        (number,) = random.choices(range(OBJECTS), weights)
        file.write(f"{request // PER_SECOND},{number + 1},{1000 + number * 977 % 20000}\n")
parameters = libcachesim.ReaderInitParam()
parameters.time_field, parameters.obj_id_field, parameters.obj_size_field = 1, 2, 3
parameters.has_header, parameters.delimiter = True, ","
reader = libcachesim.TraceReader("requests.csv", libcachesim.TraceType.CSV_TRACE, parameters)
libcachesim.Util.convert_to_oracleGeneral(reader._reader, sys.argv[1])
