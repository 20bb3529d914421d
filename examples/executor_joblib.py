"""A scikit-learn program on the executor's cores, through joblib."""

import joblib
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import hybrid_scheduler as hs


def main() -> None:
    features, labels = make_classification(300, 10, random_state=0)
    hs.register_joblib()
    with joblib.parallel_config("hybrid"):
        search = GridSearchCV(LogisticRegression(), {"C": [0.01, 0.1, 1.0, 10.0]}, cv=3, n_jobs=-1)
        search.fit(features, labels)
        print(f"best C: {search.best_params_['C']}, accuracy {search.best_score_:.3f}")
        forest = RandomForestClassifier(50, n_jobs=-1, random_state=0).fit(features, labels)
        print(f"trees: {len(forest.estimators_)}")
        print(joblib.Parallel(n_jobs=-1)(joblib.delayed(divmod)(number, 3) for number in range(4)))


if __name__ == "__main__":
    main()
