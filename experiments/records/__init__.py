"""Few large clients whose records are protected: how well a choice by many small parts does, and what limits it."""
