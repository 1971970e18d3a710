"""A session that is interrupted and resumed: what was paid for is known again, and repeats are free."""

from __future__ import annotations

from pathlib import Path

import tiny_census

import reticent as rt


def main(folder: Path = Path()) -> None:
    tiny_census.write(folder)
    table = rt.Table.read(folder / "census.parquet", rt.Domain.read(folder / "census.toml"))
    budget = rt.Budget(epsilon=1.0, delta=1e-9)
    question = rt.count((rt.col("education") == "higher") & (rt.col("smoker") == "yes"))

    with rt.Session.open(folder / "census.ledger", table, budget, anchor=folder / "census.anchor") as session:
        print("free:  ", session.ask(question))
        print("price: ", session.cost(question, error=0.0025), "of", session.remaining)
        first = session.ask(question, error=0.0025)
        print("paid:  ", first)
        spent = session.spent

    with rt.Session.open(folder / "census.ledger", table, budget, anchor=folder / "census.anchor") as session:
        again = session.ask(question, error=0.0025)
        print("again: ", again)
        assert (again.value, again.price, session.spent) == (first.value, 0.0, spent)

        ladder = [rt.count(rt.col("age") >= edge) for edge in (25, 35, 45, 55, 65)]
        for answer in session.ask_all(ladder, error=0.01):
            print("batch: ", answer)
        print(session.ask("SELECT sex, smoker, COUNT(*), AVG(income) FROM census GROUP BY sex, smoker"))
        print(session)


if __name__ == "__main__":
    main()
